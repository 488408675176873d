// Compares the calculator with `filterblock plan --json` in random questions, and checks that solving for keys is the
// inverse.
import { newCounts, parse, run, same } from './compare.mjs';

const QUESTIONS = Number(process.env.WEB_QUESTIONS ?? 10_000);
const SEED = Number(process.env.WEB_SEED ?? 1);
const FIELDS = ['filter', 'in_memory_only', 'len_bytes', 'bits_per_key', 'expected_false_positive_rate', 'lines_if_absent', 'lines_if_present', 'memory_len_bytes', 'refused'];
const AT_ONCE = 2;

// A generator of numbers from 0 to 1 (SplitMix32).
function generator(state) {
    return () => {
        state = (state + 0x9e3779b9) | 0;
        let x = state ^ (state >>> 16);
        x = Math.imul(x, 0x21f0aaad);
        x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
        return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
    };
}

// A question with logarithmic numbers: 1 to 2^56 keys, an FPR from 1e-12, bits per key, or memory around what is needed.
function question(random) {
    const keys = BigInt(Math.max(1, Math.floor(2 ** (random() * 56))));
    const kind = Math.floor(random() * 3);
    const digits = 1 + Math.floor(random() * 6);
    if (kind === 0) return { keys: `${keys}`, option: 'fpr', field: 'fpr', value: String(Number((0.99 * 10 ** (-12 * random() ** 1.5)).toPrecision(digits))) };
    if (kind === 1) return { keys: `${keys}`, option: 'bits-per-key', field: 'bits_per_key', value: (0.5 + 40 * random() ** 2 * 2.5).toFixed(digits % 4) };
    const bytes = BigInt(Math.floor(Number(keys) * 2 ** (6 * random() - 3))) + BigInt(Math.floor(random() * 300));
    return { keys: `${keys}`, option: 'memory', field: 'memory_bytes', value: `${bytes}` };
}

// Sizes of blocks and texts must be equal. Sizes of classical variants come from real numbers, so they may be rounded.
const isRounded = (place) => !/\.(filter|refused|in_memory_only)$/.test(place) && !/^.*\[native\].*len_bytes$/.test(place);

export async function calculator({ open, command }) {
    const tab = await open();
    const random = generator(SEED);
    const questions = Array.from({ length: QUESTIONS }, () => question(random));
    const asked = await tab.evaluate((all) => all.map(({ keys, field, value }) => filterblock.engine.text({ do: 'plan', keys, [field]: value })), questions);
    const counts = { ...newCounts(), refused: 0, rows: 0 };
    let next = 0;
    const worker = async () => {
        while (next < questions.length) {
            const at = next;
            next += 1;
            const { keys, option, value } = questions[at];
            const place = `--keys ${keys} --${option} ${value}`;
            const { status, stdout, stderr } = await run(command, ['plan', '--keys', keys, `--${option}`, value, '--json']);
            const answer = parse(asked[at]);
            if (status !== 0) {
                if (status !== 2 || !answer.error) throw new Error(`${place}: the command refuses (${stderr}), the page does not`);
                counts.refused += 1;
                continue;
            }
            if (answer.error) throw new Error(`${place}: the page refuses: ${answer.error}`);
            const expected = parse(stdout);
            same(answer.keys, expected.keys, place, counts);
            same(answer.filters.length, expected.filters.length, place, counts);
            expected.filters.forEach((row, i) => {
                counts.rows += 1;
                for (const field of FIELDS) {
                    // A refused row of the command has nulls instead of sizes.
                    if (row.refused && !['filter', 'refused'].includes(field)) continue;
                    same(answer.filters[i][field] ?? null, row[field] ?? null, `${place} ${row.filter}[${row.in_memory_only ? 'variant' : 'native'}].${field}`, counts, isRounded);
                }
            });
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    console.log(`${QUESTIONS} questions, ${counts.rows} rows: equal; ${counts.refused} refused by both; ${counts.exact} numbers equal in every bit, ${counts.rounded} up to rounding (relative difference at most ${counts.worst.toExponential(1)})`);
    await inverse(tab, generator(SEED + 1));
    await tab.done();
}

// The block of the found number of keys fits, and with one key more a Bloom filter does not.
async function inverse(tab, random) {
    let solved = 0;
    for (let i = 0; i < 200; i += 1) {
        const [fpr, memory] = [String(Number((0.5 * 10 ** (-5 * random())).toPrecision(3))), `${Math.floor(2 ** (8 + 40 * random()))}`];
        const found = await tab.evaluate((f, m) => filterblock.engine.ask({ do: 'plan', fpr: f, memory_bytes: m }), fpr, memory);
        for (const row of found.filters.filter(({ refused }) => !refused)) {
            if (row.len_bytes > Number(memory)) throw new Error(`${row.filter}: ${row.len_bytes} bytes for ${memory}`);
            solved += 1;
        }
        const bloom = found.filters[0];
        if (bloom.refused || bloom.keys > 2 ** 50) continue;
        const more = await tab.evaluate((f, keys) => filterblock.engine.ask({ do: 'plan', fpr: f, keys }), fpr, `${bloom.keys + 1}`);
        if (more.filters[0].len_bytes <= Number(memory)) throw new Error(`${memory} bytes hold more than ${bloom.keys} keys at ${fpr}`);
    }
    console.log(`${solved} numbers of keys solved for, all fit`);
}
