// Starts the core: once in the page for numbers, and once in a worker for files, which it reads in slices.
'use strict';
(() => {
    // Runs in the page and in the worker, so it uses nothing outside the function.
    function connect(instance, state) {
        const { memory, input, choose, answer, output } = instance.exports;
        state.memory = memory;
        return {
            choose,
            ask(request) {
                const bytes = new TextEncoder().encode(JSON.stringify(request));
                // Addresses above 2 GiB arrive as negative numbers.
                const at = input(bytes.length) >>> 0;
                new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
                const len = answer() >>> 0;
                return new TextDecoder().decode(new Uint8Array(memory.buffer, output() >>> 0, len));
            },
        };
    }

    // Returns the imports of the core. `state.readFile(offset, bytes)` fills `bytes`.
    function importsFor(state) {
        return {
            page: {
                read_file(offset, to, len) {
                    try {
                        state.readFile(offset, new Uint8Array(state.memory.buffer, to >>> 0, len >>> 0));
                        return 1;
                    } catch {
                        return 0;
                    }
                },
            },
        };
    }

    // The program of the worker. A file is read synchronously there.
    function work() {
        const state = {};
        const reads = { slices: 0, bytes: 0, list: [] };
        let engine = null;
        self.onmessage = ({ data }) => {
            try {
                if (data.module) {
                    engine = connect(new WebAssembly.Instance(data.module, importsFor(state)), state);
                    return;
                }
                if (data.file) {
                    const reader = new FileReaderSync();
                    Object.assign(reads, { slices: 0, bytes: 0, list: [] });
                    state.readFile = (offset, bytes) => {
                        const slice = data.file.slice(offset, offset + bytes.length);
                        const found = new Uint8Array(reader.readAsArrayBuffer(slice));
                        if (found.length !== bytes.length) throw new Error('the file has become shorter');
                        bytes.set(found);
                        reads.slices += 1;
                        reads.bytes += bytes.length;
                        if (reads.list.length < 1000) reads.list.push([offset, bytes.length]);
                    };
                    engine.choose(data.file.size);
                }
                self.postMessage({ answer: engine.ask(data.request), reads });
            } catch (error) {
                self.postMessage({ failed: String(error) });
            }
        };
    }

    // Parses an answer. Integers above 2^53 become text, so that no digit is lost.
    function read(text) {
        const isLong = (value, source) => typeof value === 'number' && !Number.isSafeInteger(value) && /^\d+$/.test(source ?? '');
        return JSON.parse(text, (key, value, context) => (isLong(value, context?.source) ? context.source : value));
    }

    async function compile() {
        const packed = Uint8Array.from(atob(self.filterblockModule), (c) => c.charCodeAt(0));
        const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
        return WebAssembly.compile(await new Response(stream).arrayBuffer());
    }

    const module = compile();

    // The core in the page. `ask` returns the answer, or throws the error of the answer.
    async function start() {
        const state = { readFile() { throw new Error('files are read in the worker'); } };
        const compiled = await module;
        let engine = connect(await WebAssembly.instantiate(compiled, importsFor(state)), state);
        const text = (request) => {
            try {
                return engine.ask(request);
            } catch (error) {
                // The memory of a module that has stopped cannot be trusted.
                engine = connect(new WebAssembly.Instance(compiled, importsFor(state)), state);
                throw new Error(`the page failed (${error.message}); try other numbers`);
            }
        };
        return {
            text,
            ask(request) {
                const answer = read(text(request));
                if (answer.error) throw new Error(answer.error);
                return answer;
            },
        };
    }

    // The core in a worker. Requests are answered in order.
    class FileEngine {
        constructor() {
            this.waiting = [];
            this.queue = this.startWorker();
        }

        async startWorker() {
            const source = `'use strict';${connect}${importsFor}(${work})();`;
            const address = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
            this.worker = new Worker(address);
            this.worker.onmessage = ({ data }) => this.waiting.shift()?.(data);
            this.worker.onerror = () => this.waiting.shift()?.({ failed: 'the worker has stopped' });
            this.worker.postMessage({ module: await module });
        }

        // Sends a request, and the file if it is a new one. Returns the answer and the slices that were read.
        ask(request, file) {
            const run = async () => {
                const data = await new Promise((resolve) => {
                    this.waiting.push(resolve);
                    this.worker.postMessage({ request, file });
                });
                if (data.failed) {
                    // The memory of a module that has stopped cannot be trusted.
                    this.worker.terminate();
                    await this.startWorker();
                    return { error: `the page failed on this file (${data.failed}); every key may be present`, isLost: true };
                }
                this.reads = data.reads;
                return read(data.answer);
            };
            const answered = this.queue.then(run);
            this.queue = answered.catch(() => {});
            return answered;
        }
    }

    self.filterblock = { start, FileEngine, tools: [] };
})();
