// Compares answers of the page with answers of the command.
import { execFile } from 'node:child_process';

// Runs the command. Returns its status and output.
export function run(command, args, input) {
    return new Promise((done) => {
        const child = execFile(command, args, { maxBuffer: 1 << 26 }, (error, stdout, stderr) => done({ status: error ? error.code : 0, stdout, stderr }));
        if (input === undefined) return;
        // A command that refuses does not read its input.
        child.stdin.on('error', () => {});
        child.stdin.end(input);
    });
}

// Parses JSON without rounding integers above 2^53: they become texts.
export const parse = (text) => JSON.parse(text.replace(/([:[,]\s*)(\d{16,})(?=\s*[,}\]])/g, '$1"$2"'));

// The C library and WebAssembly round logarithms and powers differently in the last digits.
const RELATIVE = 1e-11;

// Throws unless `page` has every field of `command` with the same value. Counts numbers that are equal only up to
// rounding.
export function same(page, command, place, counts, isRounded = () => true) {
    if (page === command) {
        if (typeof command === 'number') counts.exact += 1;
        return;
    }
    if (typeof command === 'object' && command !== null && typeof page === 'object' && page !== null) {
        if (Array.isArray(command) && command.length !== page.length) throw new Error(`${place}: ${page.length} elements, the command has ${command.length}`);
        for (const key of Object.keys(command)) same(page[key], command[key], `${place}.${key}`, counts, isRounded);
        return;
    }
    const [one, other] = [Number(page), Number(command)];
    const isClose = Math.abs(one - other) <= RELATIVE * Math.abs(other);
    if (/^[\d.e+-]+$/.test(`${page}${command}`) && isRounded(place) && isClose) {
        counts.rounded += 1;
        counts.worst = Math.max(counts.worst, Math.abs(one - other) / Math.abs(other));
        return;
    }
    throw new Error(`${place}: the page has ${JSON.stringify(page)}, the command ${JSON.stringify(command)}`);
}

export const newCounts = () => ({ exact: 0, rounded: 0, worst: 0 });
