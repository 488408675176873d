// The calculator: solves for keys, FPR, memory or probes, over all kinds and for the textbook filter.
'use strict';
filterblock.tools.push((engine, link) => {
    const { byId, element, significant, percent, whole, bytes } = draw;
    const names = ['keys', 'fpr', 'memory', 'probes'];
    const field = Object.fromEntries(names.map((name) => [name, byId(name)]));
    const slider = Object.fromEntries(names.map((name) => [name, byId(`${name}-slider`)]));
    const [unit, best] = [byId('unit'), byId('best')];
    const solve = () => document.querySelector('input[name="solve"]:checked').value;
    // The last answer of the textbook filter, or null after an error.
    let last = null;

    // The position of each slider for a value, and the value for a position.
    const scales = {
        keys: { to: (v) => Math.log10(v), from: (s) => String(Math.round(10 ** s)) },
        fpr: { to: (v) => Math.log10(v), from: (s) => String(Number((10 ** s).toPrecision(2))) },
        memory: {
            to: (v) => (unit.value === 'bits' ? v : Math.log10(v * Number(unit.value))),
            from: (s) => (unit.value === 'bits' ? String(s) : String(Number((10 ** s / Number(unit.value)).toPrecision(3)))),
        },
        probes: { to: (v) => v, from: (s) => String(s) },
    };

    function memoryRange() {
        const isBits = unit.value === 'bits';
        Object.assign(slider.memory, isBits ? { min: 1, max: 40, step: 0.1 } : { min: 2, max: 14, step: 0.01 });
    }

    // The memory as the core takes it: bits per key, or bytes with their unit.
    function memory() {
        if (unit.value === 'bits') return { bits_per_key: field.memory.value };
        return { memory_bytes: unit.value === '1' ? field.memory.value : `${field.memory.value} ${unit.selectedOptions[0].text}` };
    }
    function inUnit({ bits, bits_per_key: perKey }) {
        if (unit.value === '1') return String(Math.ceil(bits / 8));
        const number = unit.value === 'bits' ? perKey : bits / 8 / Number(unit.value);
        return number.toLocaleString('en', { maximumSignificantDigits: 6, useGrouping: false });
    }

    function questions() {
        const [what, keys, fpr] = [solve(), field.keys.value, field.fpr.value];
        const probes = best.checked ? null : field.probes.value;
        const known = { memory: { keys, fpr }, fpr: { keys, ...memory() }, keys: { fpr, ...memory() }, probes: { keys, ...memory() } }[what];
        return [{ do: 'plan', ...known }, { do: 'textbook', solve: what, ...known, probes: what === 'probes' ? null : probes }];
    }

    function command(plan) {
        if (plan.keys === null) return 'filterblock plan, run with several values of --keys';
        const { false_positive_rate: fpr, bits_per_key: bits, memory_bytes: bytes } = plan.budget;
        const goal = fpr ? `--fpr ${fpr}` : bits ? `--bits-per-key ${bits}` : `--memory ${bytes}`;
        return `filterblock plan --keys ${plan.keys} ${goal}`;
    }

    function lock() {
        const what = solve();
        for (const name of names) {
            const isUnknown = name === what;
            byId(`quantity-${name}`).classList.toggle('unknown', isUnknown);
            field[name].readOnly = isUnknown || (name === 'probes' && best.checked);
            slider[name].disabled = field[name].readOnly;
        }
        best.disabled = what === 'probes';
        // Bits for each key say nothing about the number of keys.
        unit.querySelector('[value="bits"]').disabled = what === 'keys';
        if (what === 'keys' && unit.value === 'bits') {
            unit.value = '1048576';
            memoryRange();
        }
    }

    // Writes the found number into its field.
    function fill(found) {
        const what = solve();
        if (what === 'keys') field.keys.value = String(found.keys);
        if (what === 'fpr') field.fpr.value = String(Number(found.fpr.toPrecision(6)));
        if (what === 'memory') field.memory.value = inUnit(found);
        if (what === 'probes' || best.checked) field.probes.value = String(found.probes);
        const values = { keys: Number(found.keys), fpr: found.given_fpr ?? found.fpr, memory: Number(inUnit(found)), probes: found.probes };
        for (const name of names) slider[name].value = scales[name].to(values[name]);
    }

    function say(found) {
        const size = `${significant(found.bits_per_key)} bits per key (${bytes(Math.ceil(found.bits / 8))})`;
        const about = { memory: `needs ${size}`, fpr: `has an FPR of ${percent(found.fpr)}`, keys: `holds ${whole(found.keys)} keys`, probes: `takes ${found.probes} probes, for an FPR of ${percent(found.fpr)}` }[solve()];
        byId('answer').textContent = `A textbook Bloom filter ${about}.`;
        byId('formula').textContent = found.formula.text;
        byId('filled').textContent = found.formula.filled;
    }

    function table(plan) {
        const rows = [];
        const cell = (text) => element('td', { class: 'n', text });
        let isInMemory = false;
        const taken = plan.filters.filter((row) => !row.refused);
        // The kinds have different numbers of keys only if the calculator solves for keys.
        const isKeys = solve() === 'keys';
        byId('kinds-keys').hidden = !isKeys;
        for (const row of taken) {
            if (row.in_memory_only && !isInMemory) {
                isInMemory = true;
                rows.push(element('tr', { class: 'group' }, [element('th', { colspan: 8, scope: 'rowgroup', text: 'Classical variants, in memory only' })]));
            }
            rows.push(element('tr', {}, [
                element('th', { scope: 'row', text: row.filter }),
                ...(isKeys ? [cell(whole(row.keys))] : []), cell(whole(row.len_bytes)), cell(significant(row.bits_per_key)), cell(percent(row.expected_false_positive_rate)),
                cell(row.probes ?? '–'), cell(significant(row.lines_if_absent)), cell(significant(row.lines_if_present)),
            ]));
        }
        byId('kinds').tBodies[0].replaceChildren(...rows);
        byId('refused').replaceChildren(...plan.filters.filter((row) => row.refused).map((row) => element('li', { text: `${row.filter}: ${row.refused}` })));
    }

    function formulas(plan) {
        const select = byId('formula-kind');
        const rows = plan.filters.filter((row) => row.formula);
        const kind = (row) => row.filter.split(':')[0];
        const present = select.value || link.read().get('kind');
        select.replaceChildren(...rows.map((row) => element('option', { value: kind(row), text: kind(row) })));
        if (rows.some((row) => kind(row) === present)) select.value = present;
        const row = rows.find((row) => kind(row) === select.value);
        byId('kind-formula').replaceChildren(...(row ? [element('code', { text: row.formula.text }), element('br'), element('code', { text: row.formula.filled }), element('br'), row.formula.words] : []));
    }

    function plots(plan, found) {
        const keys = plan.keys ?? found.keys;
        const { curves } = engine.ask({ do: 'curves', keys: String(keys) });
        const series = curves.map(({ filter, points }, i) => {
            const row = plan.filters.find((row) => !row.refused && row.filter.startsWith(`${filter}:`));
            return { name: filter, class: `s${i}`, points, marks: row ? [[row.bits_per_key, row.expected_false_positive_rate]] : [] };
        });
        byId('curves-keys').textContent = whole(keys);
        draw.plot(byId('plot-bits'), { title: `FPR of each kind by bits per key, for ${whole(keys)} keys. The table has the numbers.`, xName: 'bits per key', x: [2, 20], curves: series });
        draw.plot(byId('plot-probes'), { title: `FPR by number of probes; ${found.probes} probes give ${percent(found.fpr)}`, xName: 'probes', x: [0, 24], isDotted: true, curves: [{ name: 'textbook', class: 's0', points: found.by_probes, marks: [[found.probes, found.fpr]] }] });
    }

    // Shows the plan or, in its place, why there is none. Numbers of the previous plan would look like an answer.
    function show(refused) {
        document.querySelectorAll('.planned').forEach((part) => { part.hidden = refused !== null; });
        if (refused !== null) table({ filters: [{ filter: 'every kind', refused }] });
    }

    function compute() {
        lock();
        const [planned, textbook] = questions();
        link.write({ solve: solve(), n: field.keys.value, p: field.fpr.value, m: field.memory.value, unit: unit.value, k: best.checked ? 'best' : field.probes.value, kind: byId('formula-kind').value || null });
        byId('shared').textContent = '';
        try {
            const found = engine.ask(textbook);
            last = found;
            fill(found);
            say(found);
            byId('answer').classList.remove('error');
            try {
                const plan = engine.ask(planned);
                show(null);
                table(plan);
                formulas(plan);
                plots(plan, found);
                byId('command').textContent = command(plan);
            } catch (error) {
                show(error.message);
            }
        } catch (error) {
            last = null;
            show(error.message);
            byId('formula').textContent = byId('filled').textContent = '';
            byId('answer').textContent = error.message;
            byId('answer').classList.add('error');
        }
    }

    let isWaiting = false;
    function soon() {
        if (isWaiting) return;
        isWaiting = true;
        requestAnimationFrame(() => {
            isWaiting = false;
            compute();
        });
    }

    for (const name of names) {
        field[name].addEventListener('input', soon);
        slider[name].addEventListener('input', () => {
            field[name].value = scales[name].from(Number(slider[name].value));
            soon();
        });
    }
    unit.addEventListener('change', () => {
        if (last) field.memory.value = inUnit(last);
        memoryRange();
        soon();
    });
    [best, byId('formula-kind'), ...document.querySelectorAll('input[name="solve"]')].forEach((input) => input.addEventListener('change', compute));
    byId('calculator-form').addEventListener('submit', (event) => event.preventDefault());
    byId('share').addEventListener('click', async () => {
        compute();
        const done = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
        byId('shared').textContent = done ? 'Copied.' : 'Copy the address of this page.';
    });

    function restore() {
        const given = link.read();
        const radio = document.querySelector(`input[name="solve"][value="${CSS.escape(given.get('solve') ?? '')}"]`);
        if (radio) radio.checked = true;
        if ([...unit.options].some(({ value }) => value === given.get('unit'))) unit.value = given.get('unit');
        for (const [key, name] of [['n', 'keys'], ['p', 'fpr'], ['m', 'memory']]) if (given.has(key)) field[name].value = given.get(key);
        if (given.has('k')) {
            best.checked = given.get('k') === 'best';
            if (!best.checked) field.probes.value = given.get('k');
        }
        memoryRange();
        compute();
    }
    self.addEventListener('hashchange', restore);
    // The plots are as wide as their places.
    self.addEventListener('resize', soon);
    restore();
});
