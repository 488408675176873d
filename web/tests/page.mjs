// Tests the page as a person uses it: from a file and from a host, links, keyboard, both themes, three widths, axe-core.
import { createReadStream, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';

const WIDTHS = [400, 800, 1400];
const THEMES = ['light', 'dark'];
const LOADS = 7;
const TYPES = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript' };

const text = (tab, id) => tab.$eval(`#${id}`, (found) => found.textContent);
function expect(condition, message) {
    if (!condition) throw new Error(message);
}
const settled = (tab) => tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

async function type(tab, id, value) {
    await tab.$eval(`#${id}`, (field, to) => { field.value = to; field.dispatchEvent(new Event('input', { bubbles: true })); }, value);
    await settled(tab);
}

async function links(open) {
    const tab = await open();
    expect((await text(tab, 'answer')).includes('9.59 bits per key'), await text(tab, 'answer'));
    expect((await text(tab, 'filled')) === '−7·1000000 / ln(1 − 0.01^(1/7)) = 9592955 bits', await text(tab, 'filled'));
    await tab.click('input[value="fpr"]');
    await type(tab, 'keys', '250000000');
    await tab.select('#unit', '1048576');
    await type(tab, 'memory', '256');
    const said = await text(tab, 'answer');
    expect(said.includes('has an FPR of 1.61 %'), said);
    expect((await text(tab, 'command')) === 'filterblock plan --keys 250000000 --memory 268435456', await text(tab, 'command'));
    const before = await tab.$eval('#kinds', (table) => table.innerText);
    const address = await tab.url();
    const again = await open(address);
    expect((await text(again, 'answer')) === said, 'a link shows other numbers');
    expect((await again.$eval('#kinds', (table) => table.innerText)) === before, 'a link shows another table');
    await again.done();
    for (const [solve, part] of [['keys', 'holds'], ['probes', 'takes 6 probes'], ['memory', 'needs']]) {
        await tab.click(`input[value="${solve}"]`);
        await settled(tab);
        expect((await text(tab, 'answer')).includes(part), `${solve}: ${await text(tab, 'answer')}`);
        expect((await tab.$$('#kinds tbody tr')).length >= 7, `${solve}: the table is empty`);
    }
    const numbers = () => tab.$eval('#calculator', ({ innerText }) => /ln\(|FPR by|bloom:|filterblock plan/.test(innerText));
    for (const [id, wrong] of [['keys', '0'], ['keys', 'many'], ['fpr', '1'], ['fpr', '-1'], ['keys', '1e80']]) {
        const sound = await tab.$eval(`#${id}`, (field) => field.value);
        await type(tab, id, wrong);
        expect(/;/.test(await text(tab, 'answer')), `${id}=${wrong}: ${await text(tab, 'answer')}`);
        expect(!(await numbers()), `${id}=${wrong}: numbers of the last answer stay below the error`);
        await type(tab, id, sound);
        expect(await numbers(), `${id}=${sound}: no numbers after an error`);
    }
    for (const [id, written, part] of [
        ['keys', 'abc', 'keys: "abc" is not a whole number'], ['keys', '', 'keys: nothing is written'], ['keys', '1,000,000', '9.59 bits per key'],
        ['keys', '1e6', '9.59 bits per key'], ['fpr', '1%', '9.59 bits per key'], ['fpr', 'one', 'FPR: "one" is not a rate'],
    ]) {
        const sound = await tab.$eval(`#${id}`, (field) => field.value);
        await type(tab, 'keys', '1000000');
        await type(tab, 'fpr', '0.01');
        await type(tab, id, written);
        expect((await text(tab, 'answer')).includes(part), `${id}=${written}: ${await text(tab, 'answer')}`);
        await type(tab, id, sound);
    }
    expect((await text(tab, 'command')) === 'filterblock plan --keys 1000000 --fpr 0.01', await text(tab, 'command'));
    await tab.click('input[value="fpr"]');
    await tab.select('#unit', '1048576');
    await type(tab, 'memory', 'much');
    expect((await text(tab, 'answer')).includes('memory: "much MiB" is not a number of bytes'), await text(tab, 'answer'));
    await type(tab, 'memory', '1.5');
    expect((await text(tab, 'command')).endsWith('--memory 1572864'), await text(tab, 'command'));
    await tab.select('#unit', 'bits');
    await tab.click('input[value="memory"]');
    await settled(tab);
    // A slider changes number, answer and plot.
    const plot = await tab.$eval('#plot-bits', (found) => found.innerHTML);
    await tab.focus('#keys-slider');
    for (let i = 0; i < 40; i += 1) await tab.keyboard.press('ArrowRight');
    await settled(tab);
    expect(plot !== (await tab.$eval('#plot-bits', (found) => found.innerHTML)), 'the plot was not redrawn');
    await tab.done();
    console.log('links, the four unknowns, wrong numbers and sliders');
}

// Drops a file on the page.
async function dropped(tab, path) {
    const name = path.split('/').at(-1);
    await tab.evaluate((called, content) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([Uint8Array.from(atob(content), (c) => c.charCodeAt(0))], called));
        document.getElementById('drop').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }));
    }, name, readFileSync(path).toString('base64'));
    await tab.waitForFunction((called) => document.getElementById('file-status').textContent.startsWith(`${called}: filter-block`), {}, name);
}

async function keyboard(open, root) {
    const tab = await open();
    await tab.keyboard.press('Tab');
    expect((await tab.evaluate(() => document.activeElement.id)) === 'skip', 'the first stop is not the skip link');
    await tab.focus('#tab-calculator');
    for (const view of ['inspector', 'picture', 'calculator', 'inspector']) {
        await tab.keyboard.press('ArrowRight');
        expect(await tab.$eval(`#${view}`, (found) => !found.hidden), `${view} is not shown`);
    }
    const input = await tab.$('#file');
    await input.uploadFile(join(root, 'tests/golden/foreign/rocksdb-9.8.4/fv6-bloom-n100.sst'));
    await tab.waitForSelector('#opened:not([hidden])');
    await tab.focus('#ask-keys');
    await tab.keyboard.type('one\ntwo ');
    await tab.waitForFunction(() => /maybe, \d+ absent/.test(document.getElementById('ask-status').textContent));
    // White space in keys is shown.
    await tab.waitForFunction(() => [...document.querySelectorAll('#answers tbody th')].map(({ textContent }) => textContent).join() === 'one,two␣');
    await tab.focus('#verify');
    await tab.keyboard.press('Enter');
    await tab.waitForFunction(() => document.getElementById('verify-status').textContent.startsWith('Sound'));
    const damaged = join(root, 'web/target/tests/damaged.sst');
    const bytes = readFileSync(join(root, 'tests/golden/foreign/rocksdb-9.8.4/fv6-bloom-n100.sst'));
    bytes[100] ^= 1;
    writeFileSync(damaged, bytes);
    await input.uploadFile(damaged);
    await tab.waitForFunction(() => document.getElementById('file-status').textContent.startsWith('damaged.sst: '));
    await tab.click('#verify');
    await tab.waitForFunction(() => document.getElementById('verify-status').textContent.startsWith('Damaged'));
    expect(!/damaged:? damaged/i.test(await text(tab, 'verify-status')), await text(tab, 'verify-status'));
    await dropped(tab, join(root, 'tests/golden/v1-bloom-1000.fb'));
    await tab.focus('#tab-inspector');
    await tab.keyboard.press('ArrowRight');
    for (const kind of ['bloom', 'blocked-bloom', 'ribbon']) {
        await tab.click(`input[value="${kind}"]`);
        const start = await text(tab, 'picture-status');
        expect(start.startsWith('Step 0 of '), start);
        const last = Number(start.match(/of (\d+)/)[1]);
        await tab.focus('#next');
        for (let i = 0; i < last; i += 1) await tab.keyboard.press('Enter');
        expect((await text(tab, 'picture-status')).startsWith(`Step ${last} of ${last}.`), await text(tab, 'picture-status'));
        // A key that was added is never absent.
        await type(tab, 'picture-ask', 'plum');
        expect(/may be present, and it is/.test(await text(tab, 'picture-status')), await text(tab, 'picture-status'));
        await type(tab, 'picture-ask', 'peach');
    }
    await tab.done();
    console.log('keyboard: tabs, keys of a file, verification, all steps of three pictures; a dropped file');
}

// The switch of the colours shows its state.
async function theme(open) {
    const tab = await open();
    const state = () => tab.$eval('#theme', (button) => [button.getAttribute('aria-pressed'), getComputedStyle(button, '::before').content, document.documentElement.dataset.theme].join());
    const [before, after] = [await state(), (await tab.click('#theme'), await state())];
    for (const [found, pressed, sign, name] of [[before, 'false', '☐', 'light'], [after, 'true', '☑', 'dark']]) {
        expect(found.startsWith(pressed) && found.includes(sign) && found.endsWith(name), `the switch of the colours: ${found}`);
    }
    await tab.done();
    console.log('the switch of the colours shows its state');
}

// Nothing can leave: a connection fails, even from the page's own scripts.
async function closed(open) {
    const tab = await open();
    const failed = await tab.evaluate(() => Promise.all([fetch('module.js'), fetch('https://example.org/')].map((sent) => sent.then(() => false, () => true))));
    expect(failed.every(Boolean), 'the page may open connections');
    tab.faults = tab.faults.filter((fault) => !/Content Security Policy|Refused|URL scheme|Failed to fetch|Fetch API/i.test(fault));
    await tab.done();
    console.log('connections are refused');
}

async function looks(open, root) {
    const shots = join(root, 'web/target/screenshots');
    mkdirSync(shots, { recursive: true });
    const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    const counts = { views: 0, rules: 0 };
    for (const theme of THEMES) {
        for (const width of WIDTHS) {
            const tab = await open();
            await tab.setViewport({ width, height: 900 });
            await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
            for (const view of ['calculator', 'inspector', 'picture', 'ribbon']) {
                if (view !== 'ribbon') await tab.click(`#tab-${view}`);
                if (view === 'inspector') {
                    const input = await tab.$('#file');
                    await input.uploadFile(join(root, 'tests/golden/foreign/parquet/rs.parquet'));
                    await tab.waitForSelector('#opened:not([hidden])');
                    await tab.type('#ask-keys', '0\nsome key');
                    await tab.waitForSelector('#answers:not([hidden])');
                } else if (view === 'ribbon') await tab.click('input[value="ribbon"]');
                if (view === 'picture' || view === 'ribbon') await tab.click('#last');
                await settled(tab);
                const wide = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
                expect(wide <= 0, `${view}, ${theme}, ${width}: ${wide} pixels too wide`);
                await tab.screenshot({ path: join(shots, `${view}-${theme}-${width}.png`), fullPage: true });
                const found = await tab.evaluate(`${axe}; axe.run(document, { preload: false, resultTypes: ['violations', 'incomplete'] })`);
                const wrong = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`);
                expect(!wrong.length, `${view}, ${theme}, ${width}: ${wrong.join('\n')}`);
                counts.views += 1;
                counts.rules += found.passes.length;
                if (process.env.WEB_VERBOSE) found.incomplete.forEach(({ id, nodes }) => console.log(`undecided: ${view} ${theme} ${width} ${id} ${nodes.length}`));
            }
            await tab.done();
        }
    }
    console.log(`axe-core: 0 findings in ${counts.views} views (${THEMES.length} themes, widths ${WIDTHS.join(', ')}); ${counts.rules} rules passed; screenshots in ${shots.slice(root.length + 1)}`);
}

// Computes the contrast of all pairs of colours, because axe-core cannot decide about text in SVG and in scrolled parts.
async function contrast(open) {
    const tab = await open();
    const texts = [...['s0', 's1', 's2', 's3', 's4', 's5', 's6'].map((name) => [name, 'paper']), ['ink', 'paper'], ['ink', 'panel'], ['soft', 'paper'], ['soft', 'panel'], ['link', 'paper'], ['maybe', 'paper'], ['maybe', 'panel'], ['absent', 'paper'], ['on-accent', 'accent'], ['paper', 'set'], ['paper', 'now'], ['ink', 'clear']];
    const marks = ['s0', 's1', 's2', 's3', 's4', 's5', 's6', 'filter', 'index', 'meta', 'set', 'now', 'line', 'accent'].map((name) => [name, 'paper']);
    const luminance = (colour) => {
        const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const least = { text: Infinity, mark: Infinity };
    for (const theme of THEMES) {
        await tab.evaluate((name) => { document.documentElement.dataset.theme = name; }, theme);
        for (const [pairs, kind, limit] of [[texts, 'text', 4.5], [marks, 'mark', 3]]) {
            for (const pair of pairs) {
                const colours = await tab.evaluate((names) => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()), pair);
                const [low, high] = colours.map(luminance).sort((one, other) => one - other);
                const found = (high + 0.05) / (low + 0.05);
                expect(found >= limit, `${theme}: ${pair.join(' on ')} has a contrast of ${found.toFixed(2)}`);
                least[kind] = Math.min(least[kind], found);
            }
        }
    }
    await tab.done();
    console.log(`contrast: text at least ${least.text.toFixed(2)}, marks at least ${least.mark.toFixed(2)}`);
}

// The static host serves the folder and nothing else.
function host(folder) {
    const server = createServer((request, response) => {
        const path = join(folder, new URL(request.url, 'http://host').pathname.replace(/\/$/, '/index.html'));
        response.setHeader('content-type', TYPES[extname(path)] ?? 'application/octet-stream');
        createReadStream(path).on('error', () => { response.statusCode = 404; response.end(); }).pipe(response);
    });
    return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)));
}

async function first(open, root) {
    const folder = join(root, 'web/page');
    const server = await host(folder);
    const addresses = { file: `file://${folder}/index.html`, host: `http://127.0.0.1:${server.address().port}/` };
    for (const [name, address] of Object.entries(addresses)) {
        const times = [];
        for (let i = 0; i < LOADS; i += 1) {
            const tab = await open(address);
            times.push(await tab.evaluate(() => Number(document.documentElement.dataset.ready)));
            expect((await text(tab, 'answer')).includes('9.59 bits per key'), 'no first answer');
            await tab.done();
        }
        times.sort((one, other) => one - other);
        console.log(`first answer from a ${name}: median ${times[LOADS >> 1]} ms, longest ${times.at(-1)} ms, ${LOADS} loads`);
    }
    server.close();
    const size = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    expect(size <= 600_000, `${size} bytes`);
    console.log(`size: ${size} bytes in ${readdirSync(folder).length} files`);
}

export async function page({ root, open }) {
    await first(open, root);
    await links(open);
    await keyboard(open, root);
    await theme(open);
    await closed(open);
    await contrast(open);
    await looks(open, root);
}
