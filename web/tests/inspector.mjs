// Compares the inspector with `inspect`, `verify`, `query` and `index query` on the golden files of every engine, opens
// a Parquet file of 1 GiB, and asks damaged files.
import { createHash } from 'node:crypto';
import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, readdirSync, writeFileSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { newCounts, parse, run, same } from './compare.mjs';

const GIB = 2 ** 30;
// Keys that no golden file is likely to hold.
const STRANGERS = Array.from({ length: 200 }, (_, i) => `stranger ${i}`);
const FORMATS = [['leveldb', 'leveldb-bloom'], ['rocksdb', 'rocksdb-filter'], ['parquet', 'parquet-sbbf']];

function golden(root) {
    const foreign = join(root, 'tests/golden/foreign');
    const list = (dir, ends) => readdirSync(dir).filter((name) => ends.some((end) => name.endsWith(end))).map((name) => join(dir, name));
    const folders = readdirSync(foreign, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => join(foreign, name));
    const files = folders.flatMap((dir) => list(dir, ['.sst', '.ldb', '.parquet', '.filter', '.sbbf']));
    return [...files, ...list(join(root, 'tests/golden'), ['.fb'])];
}

// The format that a bare filter needs.
const formatOf = (path) => (/\.(filter|sbbf)$/.test(path) ? FORMATS.find(([engine]) => path.includes(`/foreign/${engine}`))[1] : null);

// Opens a file in the page, and returns the report.
async function inspect(tab, path, format) {
    await tab.evaluate((value) => { document.getElementById('format').value = value ?? ''; document.getElementById('file-status').textContent = ''; }, format);
    const input = await tab.$('#file');
    await input.uploadFile(path);
    await tab.waitForFunction(() => /; read |every key may be present/.test(document.getElementById('file-status').textContent));
    return tab.evaluate(async ({ name, options }) => {
        const [said, reads] = [document.getElementById('file-status').textContent, filterblock.files.reads];
        // The page has opened the file. This opens it again for the raw report.
        return { said, reads, report: await filterblock.files.ask({ do: 'open', name, options }) };
    }, { name: path, options: { format } });
}

const ask = (tab, request) => tab.evaluate((asked) => filterblock.files.ask({ do: 'ask', ...asked }), request);

// Returns keys that a golden file holds, if its folder describes them: a prefix and a number in eight digits.
function present(path) {
    const cases = join(dirname(path), 'cases.json');
    if (!existsSync(cases)) return [];
    const found = JSON.parse(readFileSync(cases, 'utf8')).find(({ file, keys }) => file === basename(path) && keys?.kind === 'dec');
    if (!found || found.column) return [];
    const { prefix, start, step } = found.keys;
    return Array.from({ length: Math.min(found.n, 300) }, (_, i) => `${prefix}${String(start + step * i).padStart(8, '0')}`);
}

// Keys of the golden files, keys that look like them, and strangers.
function keysFor(path) {
    const numbered = Array.from({ length: 200 }, (_, i) => [`k${String(i * 7 + 5).padStart(8, '0')}`, `key ${i}`, `${i}`]).flat();
    return [...present(path), ...numbered, ...STRANGERS];
}

// Values of a column, and how they are written.
function valuesOf(column) {
    const numbers = Array.from({ length: 3000 }, (_, i) => i);
    if (/^[if]\d/.test(column)) return { keys: numbers.map(String), hex: false };
    if (column === 'flba') return { keys: numbers.map((i) => i.toString(16).padStart(16, '0')), hex: true };
    return { keys: numbers.map((i) => `k${String(i).padStart(8, '0')}`), hex: false };
}

async function query(tab, command, path, format, extra, counts) {
    const { keys, hex } = extra.request.column ? valuesOf(extra.request.column) : { keys: keysFor(path), hex: false };
    const args = [...(format ? ['--format', format] : []), ...(hex ? ['--hex'] : []), ...extra.args];
    const expected = await run(command, ['query', path, '--json', '-', ...args], `${keys.join('\n')}\n`);
    const found = await ask(tab, { keys, hex, ...extra.request });
    if (expected.status === 2) {
        // A secret is needed, or the keys do not fit. Then the page must not say "absent".
        const absent = (found.answers ?? []).filter(({ answer }) => answer === 'absent');
        if (absent.length && !/argument|line \d+|standard input/.test(expected.stderr)) throw new Error(`${path}: absent, but the command refuses: ${expected.stderr}`);
        counts.refused += 1;
        return;
    }
    if (found.error) throw new Error(`${path} ${args}: the page refuses: ${found.error}`);
    const lines = expected.stdout.trim().split('\n').map((line) => JSON.parse(line));
    lines.forEach(({ answer, key }, i) => {
        if (found.answers[i].answer !== answer || found.answers[i].key !== key) throw new Error(`${path}: the page says ${JSON.stringify(found.answers[i])}, the command ${answer} for ${key}`);
        counts[answer] += 1;
    });
    if (extra.request.prefixes || extra.request.column) return;
    const lost = present(path).filter((_, i) => found.answers[i].answer !== 'maybe');
    if (lost.length) throw new Error(`${path}: the page denies ${lost[0]}, which the file holds`);
    counts.held += present(path).length;
}

// Compares one file, whole.
async function compare(tab, command, path, counts) {
    const format = formatOf(path);
    const args = format ? ['--format', format] : [];
    const inspected = await run(command, ['inspect', path, '--json', ...args]);
    const { report } = await inspect(tab, path, format);
    if (inspected.status !== 0) {
        if (!report.error) throw new Error(`${path}: the command refuses, the page does not: ${inspected.stderr}`);
        counts.refused += 1;
        return;
    }
    if (report.error) throw new Error(`${path}: the page refuses: ${report.error}`);
    const expected = parse(inspected.stdout);
    if (expected.notes) {
        // The page takes no secrets and no options, so its notes about them differ.
        const isShared = (note) => !/--secret-file|does not take|^to count the keys, /.test(note);
        if (report.notes.length !== expected.notes.length) throw new Error(`${path}: ${report.notes.length} notes, the command has ${expected.notes.length}`);
        expected.notes = expected.notes.filter(isShared);
        report.notes = report.notes.filter(isShared);
    }
    same(parse(JSON.stringify(report)), expected, path, counts);
    const end = report.map.find(({ offset, len_bytes: len }) => offset < 0 || len <= 0);
    if (end) throw new Error(`${path}: a region of the map is empty: ${JSON.stringify(end)}`);

    const verified = await run(command, ['verify', path, '--json', ...args]);
    const said = await tab.evaluate(() => filterblock.files.ask({ do: 'verify' }));
    if (verified.status !== 2) {
        const { sound, blocks, keys, denied_keys: denied, filters } = JSON.parse(verified.stdout);
        const known = Object.fromEntries(Object.entries({ blocks, keys, denied_keys: denied, filters }).filter(([, value]) => value !== undefined));
        same(said.sound, sound, `${path} verify`, counts);
        if (sound) same(said.walked, known, `${path} verify`, counts);
    }
    if (report.type === 'parquet-file') {
        for (const column of report.columns) {
            for (const group of [null, 0]) await query(tab, command, path, format, { args: ['--column', column, ...(group === null ? [] : ['--row-group', `${group}`])], request: { column, row_group: group === null ? null : `${group}` } }, counts);
        }
    } else if (format === 'parquet-sbbf') {
        await query(tab, command, path, format, { args: ['--type', 'utf8'], request: { value_type: 'utf8' } }, counts);
    } else {
        await query(tab, command, path, format, { args: [], request: {} }, counts);
        await query(tab, command, path, format, { args: ['--prefixes'], request: { prefixes: true } }, counts);
    }
}

// A valid Parquet file of 1 GiB: pages and filters, a hole, and the footer at the end. The hole takes no disk.
function largeParquet(root, scratch) {
    const small = readFileSync(join(root, 'tests/golden/foreign/parquet/rs.parquet'));
    const footer = small.length - 8 - small.readUInt32LE(small.length - 8);
    const path = join(scratch, 'large.parquet');
    const file = openSync(path, 'w');
    writeSync(file, small, 0, footer, 0);
    ftruncateSync(file, GIB - (small.length - footer));
    writeSync(file, small, footer, small.length - footer, GIB - (small.length - footer));
    closeSync(file);
    return { path, footerLen: small.length - footer };
}

async function large(tab, command, root, scratch) {
    const { path, footerLen } = largeParquet(root, scratch);
    const start = Date.now();
    const { report, reads } = await inspect(tab, path, null);
    const took = Date.now() - start;
    const filters = report.filters.reduce((sum, { len_bytes: len }) => sum + len, 0);
    const headers = reads.bytes - filters - footerLen;
    // Headers of filters, and eight bytes at each end that decide the type.
    if (headers < 0 || headers > 32) throw new Error(`${reads.bytes} bytes were read for ${filters} bytes of filters and ${footerLen} of footer`);
    for (const [offset, len] of reads.list) {
        if (offset + len > 100_000 && offset < GIB - footerLen - 8) throw new Error(`${len} bytes at ${offset} were read for nothing`);
    }
    const counts = { ...newCounts(), maybe: 0, absent: 0, refused: 0, held: 0 };
    await query(tab, command, path, null, { args: ['--column', 'i64'], request: { column: 'i64' } }, counts);
    console.log(`a Parquet file of 1 GiB: ${reads.slices} slices, ${reads.bytes} bytes read (${filters} of filters, ${footerLen} of footer), opened in ${took} ms; ${counts.maybe} maybe, ${counts.absent} absent as the command says`);
}

// Damages files in every 64th byte and asks for their keys: the page may refuse or answer "maybe".
async function damaged(tab, root, scratch) {
    let [opened, refused] = [0, 0];
    const unnoticed = [];
    for (const name of ['foreign/rocksdb-9.8.4/fv6-bloom-n100.sst', 'foreign/leveldb/tbl-n100.ldb', 'v1-bloom-1000.fb', 'v1-bumped-ribbon-1000.fb']) {
        const sound = readFileSync(join(root, 'tests/golden', name));
        for (let at = createHash('sha256').update(name).digest()[0] % 64; at < sound.length; at += Math.max(64, Math.floor(sound.length / 60))) {
            const bytes = Buffer.from(sound);
            bytes[at] ^= 0x20;
            // A browser does not notice that the same file is chosen again.
            const path = join(scratch, `damaged-${(opened + refused) % 2}`);
            writeFileSync(path, bytes);
            const { report, said } = await inspect(tab, path, null);
            if (report.error) {
                refused += 1;
                if (!said.includes('every key may be present')) throw new Error(`${name}, byte ${at}: ${said}`);
            } else {
                opened += 1;
                const verified = await tab.evaluate(() => filterblock.files.ask({ do: 'verify' }));
                // Only the padding of a footer has no checksum.
                if (verified.sound && at < sound.length - 53) throw new Error(`${name}: byte ${at} is damaged, and the page says sound`);
                if (verified.sound) unnoticed.push(at - sound.length);
            }
        }
    }
    console.log(`${refused + opened} damaged files: ${refused} refused, ${opened} opened, of which ${opened - unnoticed.length} fail to verify, and ${unnoticed.length} have damage in the padding of the footer`);
}

async function index(tab, command, root, scratch, counts) {
    const path = join(scratch, 'ids.index');
    const sources = ['rs.parquet', 'pyarrow.parquet'].map((name) => join(root, 'tests/golden/foreign/parquet', name));
    const built = await run(command, ['index', 'build', ...sources, '--column', 'i64', '--output', path, '--force']);
    if (built.status !== 0) throw new Error(`index build: ${built.stderr}`);
    const { report } = await inspect(tab, path, null);
    if (report.error) throw new Error(report.error);
    const verified = parse((await run(command, ['index', 'verify', path, '--json'])).stdout);
    for (const field of ['column', 'key_type', 'logical_type', 'fpr', 'generation', 'rows', 'cells', 'index_len_bytes', 'keys']) same(report[field], verified[field], `index.${field}`, counts);
    const keys = Array.from({ length: 2000 }, (_, i) => `${i * 7}`);
    const expected = await run(command, ['index', 'query', path, '--json', '-'], `${keys.join('\n')}\n`);
    const found = await ask(tab, { keys });
    if (expected.status === 2 || found.error) throw new Error(`index query: ${expected.stderr} ${found.error}`);
    expected.stdout.trim().split('\n').map((line) => JSON.parse(line)).forEach(({ answer, files }, i) => {
        same(found.answers[i].answer, answer, `index ${keys[i]}`, counts);
        same(found.answers[i].places, files, `index ${keys[i]}`, counts);
        counts[answer] += 1;
    });
}

export async function inspector({ root, scratch, open, command }) {
    const tab = await open();
    await tab.click('#tab-inspector');
    const counts = { ...newCounts(), maybe: 0, absent: 0, refused: 0, held: 0 };
    const files = golden(root);
    for (const path of files) await compare(tab, command, path, counts);
    await index(tab, command, root, scratch, counts);
    console.log(`${files.length} golden files and an index: equal to the command; ${counts.maybe} keys maybe (${counts.held} of them held for certain), ${counts.absent} absent, ${counts.refused} refused; ${counts.exact} numbers equal in every bit, ${counts.rounded} up to rounding (at most ${counts.worst.toExponential(1)})`);
    await large(tab, command, root, scratch);
    await damaged(tab, root, scratch);
    await tab.done();
}
