// Runs the tests of the page. Each prints what it counted, and throws at the first difference.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import puppeteer from 'puppeteer-core';
import { calculator } from './calculator.mjs';
import { inspector } from './inspector.mjs';
import { page } from './page.mjs';

const root = resolve(import.meta.dirname, '../..');
const all = { calculator, inspector, page };
const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(all);
const scratch = join(root, 'web/target/tests');
mkdirSync(scratch, { recursive: true });

const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: ['--no-sandbox'] });
// Opens the page as a file. A request to anywhere else, or an error of a script, fails the test.
async function open(address = `file://${root}/web/page/index.html`) {
    const tab = await browser.newPage();
    tab.faults = [];
    tab.on('request', (request) => {
        const url = request.url();
        if (!url.startsWith(new URL('.', address).href) && !/^(blob|data):/.test(url)) tab.faults.push(`request of ${url}`);
    });
    tab.on('pageerror', (error) => tab.faults.push(`error ${error.message}`));
    tab.on('console', (message) => message.type() === 'error' && tab.faults.push(`console ${message.text()}`));
    await tab.goto(address);
    await tab.waitForSelector('html[data-ready]');
    tab.done = async () => {
        if (tab.faults.length) throw new Error(`faults of the page: ${tab.faults.join('; ')}`);
        await tab.close();
    };
    return tab;
}
const context = { root, scratch, open, command: resolve(process.env.FILTERBLOCK ?? join(root, 'target/debug/filterblock')) };
try {
    for (const name of wanted) {
        console.log(`=== ${name}`);
        await all[name](context);
    }
    console.log('The page passed.');
} finally {
    await browser.close();
}
