// The picture: keys set bits, one probe at a time, and then a key is asked.
'use strict';
filterblock.tools.push((engine, link) => {
    const { byId, svg, percent, visible } = draw;
    const kind = () => document.querySelector('input[name="picture-kind"]:checked').value;
    const [bits, probes] = [byId('picture-bits'), byId('picture-probes')];
    let [found, steps, at, timer] = [null, [], 0, null];

    const ranges = {
        bloom: { min: 64, max: 1024, step: 64, value: 128, note: 'Each key sets k bits anywhere in the filter. A key whose bits are all set is “maybe”; one clear bit means “absent”.' },
        'blocked-bloom': { min: 512, max: 2048, step: 512, value: 1024, note: 'All bits of a key lie in one line of 512 bits, which is one cache line: a query reads one line of memory. Each row of the picture has 64 bits, and a frame is a line.' },
        ribbon: { min: 64, max: 64, step: 64, value: 64, note: 'Each key is an equation: its coefficients select rows of the solution, and the sum of these rows, without carry, must be its fingerprint. Elimination places each equation in a slot, and the filter stores the solution. This ribbon has rows of 8 coefficients; real ones have 64 or 128.' },
    };

    function reset() {
        const range = ranges[kind()];
        Object.assign(bits, { min: range.min, max: range.max, step: range.step });
        bits.value = range.value;
        byId('quantity-picture-bits').hidden = kind() === 'ribbon';
        byId('picture-probes-name').textContent = kind() === 'ribbon' ? 'Columns' : 'Probes';
        byId('picture-note').textContent = range.note;
        compute(0);
    }

    function compute(to) {
        stop();
        byId('picture-bits-value').textContent = bits.value;
        byId('picture-probes-value').textContent = probes.value;
        const keys = byId('picture-keys').value.split('\n').filter((key) => key !== '');
        try {
            found = engine.ask({ do: 'picture', kind: kind(), keys, ask: byId('picture-ask').value, bits: Number(bits.value), probes: Number(probes.value) });
            steps = kind() === 'ribbon' ? ribbonSteps() : bloomSteps();
            go(Math.min(to, steps.length - 1));
        } catch (error) {
            steps = [];
            byId('picture-status').textContent = error.message;
            byId('picture-bits-drawn').replaceChildren();
        }
    }

    function verdict() {
        if (found.answer === 'absent') return 'So the key is certainly absent.';
        return found.is_member ? 'So the key may be present, and it is.' : 'So the key may be present. It is not: a false positive.';
    }

    // A step is a text and a drawing.
    function bloomSteps() {
        const list = [{ text: `An empty filter of ${found.bits} bits.`, set: 0 }];
        const drawn = [];
        for (const { key, line, probes: probed } of found.steps) {
            probed.forEach(({ position, was_set: wasSet }, i) => {
                drawn.push(position);
                const place = line === null ? '' : ` in line ${line}`;
                list.push({ text: `Add “${visible(key)}”, probe ${i + 1} of ${probed.length}: bit ${position}${place} ${wasSet ? 'is already set' : 'is set'}.`, set: drawn.length, now: [position], line });
            });
        }
        const { key, line, probes: probed } = found.asked;
        const clear = probed.findIndex(({ was_set: isSet }) => !isSet);
        const asked = clear < 0 ? probed : probed.slice(0, clear + 1);
        asked.forEach(({ position, was_set: isSet }, i) => {
            const isLast = i === asked.length - 1;
            list.push({ text: `Ask “${visible(key)}”, probe ${i + 1} of ${probed.length}: bit ${position} is ${isSet ? 'set' : 'clear'}. ${isLast ? verdict() : ''}`, set: drawn.length, now: [position], isMissed: !isSet, line });
        });
        list.drawn = drawn;
        return list;
    }

    function drawBloom(step) {
        const [columns, size] = kind() === 'bloom' ? [32, 30] : [64, 15];
        const set = new Set(steps.drawn.slice(0, step.set));
        const rows = Math.ceil(found.bits / columns);
        const cells = [];
        for (let bit = 0; bit < found.bits; bit += 1) {
            const isNow = step.now?.includes(bit);
            const state = isNow ? (step.isMissed ? 'missed' : 'now') : set.has(bit) ? 'set' : '';
            cells.push(svg('rect', { class: `bit ${state}`, x: (bit % columns) * size, y: Math.floor(bit / columns) * size, width: size, height: size }));
        }
        if (kind() === 'blocked-bloom') {
            for (let line = 0; line < found.bits / 512; line += 1) cells.push(svg('rect', { class: `frame ${step.line === line ? 'now' : ''}`, x: 0.5, y: line * 8 * size + 0.5, width: columns * size - 1, height: 8 * size - 1 }));
        }
        const label = `${set.size} of ${found.bits} bits are set. ${step.text}`;
        return svg('svg', { viewBox: `0 0 ${columns * size} ${rows * size}`, role: 'img', 'aria-label': label }, cells);
    }

    function ribbonSteps() {
        const list = [{ text: `No equation yet; the filter will have ${found.slots} slots.`, rows: 0 }];
        found.steps.forEach(({ key, start, added, slot }, i) => {
            const how = slot === null ? 'it follows from the others' : `it takes slot ${slot}${added ? ` after ${added} other${added === 1 ? '' : 's'} were added to it` : ''}`;
            list.push({ text: `Add “${visible(key)}”: its equation starts at slot ${start}; ${how}.`, rows: i + 1 });
        });
        list.push({ text: `The system is solved from the last slot: ${found.slots} rows of ${found.columns} bits are the filter.`, rows: found.steps.length, isSolved: true });
        const columns = found.asked.columns;
        const differs = columns.findIndex(({ sum, fingerprint }) => sum !== fingerprint);
        columns.slice(0, differs < 0 ? columns.length : differs + 1).forEach(({ sum, fingerprint }, i, all) => {
            list.push({ text: `Ask “${visible(found.asked.key)}”, column ${i + 1} of ${columns.length}: the selected bits add up to ${sum}, the fingerprint has ${fingerprint}. ${i === all.length - 1 ? verdict() : ''}`, rows: found.steps.length, isSolved: true, column: i });
        });
        return list;
    }

    function drawRibbon(step) {
        const size = 20;
        const { slots, columns } = found;
        const [left, gap] = [10, 2];
        const parts = [];
        const cell = (x, y, value, state) => parts.push(svg('rect', { class: `bit ${state}`, x: x * size, y: y * size, width: size, height: size }), svg('text', { class: `in ${state}`, x: (x + 0.5) * size, y: (y + 0.7) * size, text: value }));
        const short = (key) => (key.length > 20 ? `${key.slice(0, 19)}…` : key);
        const equation = (y, key, { start, coefficients }, fingerprint, state) => {
            parts.push(svg('text', { x: left * size - 8, y: (y + 0.7) * size, 'text-anchor': 'end', text: short(visible(key)) }));
            for (let slot = 0; slot < slots; slot += 1) cell(left + slot, y, slot >= start && slot < start + coefficients.length ? coefficients[slot - start] : '', coefficients[slot - start] ? state : '');
            fingerprint.forEach((bit, column) => cell(left + slots + gap + column, y, bit, bit ? state : ''));
        };
        found.steps.slice(0, step.rows).forEach((row, i) => equation(i, row.key, row, row.fingerprint, i === step.rows - 1 && !step.isSolved ? 'now' : 'set'));
        const below = found.steps.length + 1;
        if (step.column !== undefined) {
            const shown = found.asked.columns.map(({ fingerprint }, i) => (i <= step.column ? fingerprint : ''));
            equation(below, found.asked.key, found.asked, shown, 'now');
        }
        if (step.isSolved) {
            found.solution.forEach((row, slot) => row.forEach((bit, column) => {
                const isAsked = step.column === column && found.asked.coefficients[slot - found.asked.start];
                cell(left + slot, below + 2 + column, bit, isAsked ? 'now' : bit ? 'set' : '');
            }));
            for (let column = 0; column < columns; column += 1) parts.push(svg('text', { x: left * size - 8, y: (below + 2.7 + column) * size, 'text-anchor': 'end', text: `column ${column + 1}` }));
        }
        const [width, height] = [left + slots + gap + columns, below + 3 + columns];
        return svg('svg', { viewBox: `0 0 ${width * size} ${height * size}`, role: 'img', 'aria-label': step.text }, parts);
    }

    function go(to) {
        if (!steps.length) return;
        at = Math.max(0, Math.min(to, steps.length - 1));
        const step = steps[at];
        const fill = found.fill === undefined || at < steps.length - 1 ? '' : ` Fill ratio: ${percent(found.fill)}.`;
        byId('picture-status').textContent = `Step ${at} of ${steps.length - 1}. ${step.text}${fill}`;
        byId('picture-bits-drawn').replaceChildren(kind() === 'ribbon' ? drawRibbon(step) : drawBloom(step));
    }

    function stop() {
        clearInterval(timer);
        timer = null;
        byId('play').textContent = 'Play';
    }

    byId('play').addEventListener('click', () => {
        if (timer) {
            stop();
            return;
        }
        if (at === steps.length - 1) go(0);
        byId('play').textContent = 'Pause';
        timer = setInterval(() => (at < steps.length - 1 ? go(at + 1) : stop()), 700);
    });
    const buttons = { first: () => 0, previous: () => at - 1, next: () => at + 1, last: () => steps.length - 1 };
    Object.entries(buttons).forEach(([id, to]) => byId(id).addEventListener('click', () => {
        stop();
        go(to());
    }));
    byId('picture-form').addEventListener('submit', (event) => event.preventDefault());
    byId('picture-form').addEventListener('input', (event) => (event.target.name === 'picture-kind' ? reset() : compute(Infinity)));
    reset();
});
