// Packs the page: copies the static files, and puts the compressed WebAssembly into a classic script, because a page
// that was opened as a file may load neither JavaScript modules nor data.
// Usage: node pack.mjs MODULE FOLDER
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const [wasm, folder] = process.argv.slice(2);
const sources = join(dirname(fileURLToPath(import.meta.url)), 'static');
const files = ['index.html', 'page.css', 'engine.js', 'draw.js', 'calculator.js', 'inspector.js', 'picture.js', 'page.js'];

const module = readFileSync(wasm);
for (const home of [process.env.HOME, process.cwd()]) {
    if (home && home.length > 1 && module.includes(home)) throw new Error(`the module contains the path ${home}`);
}
const packed = gzipSync(module, { level: 9 }).toString('base64');
writeFileSync(join(folder, 'module.js'), `// The core of filterblock, compiled by web/build.\nself.filterblockModule = '${packed}';\n`);
files.forEach((file) => copyFileSync(join(sources, file), join(folder, file)));

const size = [...files, 'module.js'].map((file) => statSync(join(folder, file)).size).reduce((sum, len) => sum + len, 0);
console.log(`${folder}: ${size} bytes in ${files.length + 1} files; the module has ${module.length}`);
if (size > 600_000) throw new Error(`the page has ${size} bytes, more than 600,000`);
