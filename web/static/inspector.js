// The inspector: opens a file in the worker, draws its map, and asks it for typed keys.
'use strict';
filterblock.tools.push((engine, link) => {
    const { byId, element, svg, significant, percent, whole, bytes, keyNodes } = draw;
    const files = new filterblock.FileEngine();
    let [report, openings, asks, length] = [null, 0, 0, 0];
    // The maximum number of rows of a table. Further rows are only counted.
    const SHOWN = 200;

    function reads() {
        const { slices, bytes: len } = files.reads ?? { slices: 0, bytes: 0 };
        return `read ${whole(slices)} slice${slices === 1 ? '' : 's'}, ${bytes(len)} of ${bytes(length)}`;
    }

    async function open(file) {
        openings += 1;
        const [opening, status] = [openings, byId('file-status')];
        byId('opened').hidden = true;
        status.classList.remove('error');
        status.textContent = `Reading ${file.name} …`;
        const options = { format: byId('format').value || null, key_form: byId('key-form').value || null };
        const found = await files.ask({ do: 'open', name: file.name, options }, file);
        // Another file may have been chosen meanwhile.
        if (opening !== openings) return;
        [report, length] = [found.error ? null : found, file.size];
        if (found.error) {
            status.classList.add('error');
            status.textContent = `${found.error}. No answer is possible, so every key may be present.`;
            return;
        }
        status.textContent = `${file.name}: ${found.type}, ${whole(file.size)} bytes; ${reads()}`;
        byId('opened').hidden = false;
        byId('verify-status').textContent = '';
        map(found.map, file.size);
        options_for(found);
        describe(found);
        ask();
    }

    // Draws the whole file to scale, and the part with the filters again if it is narrow.
    function map(regions, size) {
        const bar = (from, end, title) => {
            const [span, merged] = [end - from, new Map()];
            const drawn = regions.filter(({ offset, len_bytes: len }) => offset < end && offset + len > from);
            // Neighbours within half a pixel are one mark, so that a map of thousands of filters stays light.
            for (const region of drawn) {
                const x = (Math.max(region.offset, from) - from) / span * 2000;
                const width = (Math.min(region.offset + region.len_bytes, end) - Math.max(region.offset, from)) / span * 2000;
                const key = width < 1 ? `${region.role}${Math.round(x)}` : `${region.role}${region.offset}`;
                const known = merged.get(key);
                if (known) known.count += 1;
                else merged.set(key, { ...region, x, width, count: 1 });
            }
            // Filters come last, so that nothing hides them. A mark is at least half a pixel wide, so that it is seen.
            const order = ['data', 'index', 'meta', 'filter'];
            const marks = [...merged.values()].sort((one, other) => order.indexOf(one.role) - order.indexOf(other.role));
            const rects = marks.map(({ role, offset, len_bytes: len, label, x, width, count }) => svg('rect', { class: `area role-${role}`, x: x.toFixed(2), width: Math.max(width, 1).toFixed(2), y: 0, height: 44 }, [svg('title', { text: `${label}${count > 1 ? ` and ${count - 1} more` : ''}: offset ${whole(offset)}, ${whole(len)} bytes` })]));
            return [element('p', { text: title }), svg('svg', { viewBox: '0 0 2000 44', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}. The report lists the filters.` }, rects)];
        };
        const filters = regions.filter(({ role }) => role === 'filter');
        const total = filters.reduce((sum, { len_bytes: len }) => sum + len, 0);
        const parts = bar(0, size, `The whole file, ${bytes(size)}; ${whole(filters.length)} filter${filters.length === 1 ? '' : 's'}, ${bytes(total)}, ${percent(total / size)}`);
        if (filters.length && total / size < 0.2) {
            const [from, end] = [Math.min(...filters.map(({ offset }) => offset)), Math.max(...filters.map(({ offset, len_bytes: len }) => offset + len))];
            if ((end - from) / size < 0.8) parts.push(...bar(from, end, `From the first filter to the last, ${bytes(end - from)} from offset ${whole(from)}`));
        }
        const legend = [['data', 'data'], ['filter', 'filters'], ['index', 'indexes'], ['meta', 'headers and footers']].filter(([role]) => regions.some((region) => region.role === role));
        parts.push(element('ul', { class: 'legend' }, legend.map(([role, text]) => element('li', {}, [element('span', { class: `key role-${role}` }), text]))));
        byId('map').className = 'map';
        byId('map').replaceChildren(...parts);
    }

    function options_for(found) {
        const isParquet = found.type === 'parquet-file';
        const isTyped = isParquet || found.type === 'index' || found.type === 'parquet-sbbf';
        byId('parquet-options').hidden = !isTyped;
        for (const id of ['column', 'row-group']) {
            byId(id).hidden = !isParquet;
            document.querySelector(`label[for="${id}"]`).hidden = !isParquet;
        }
        byId('row-group').value = '';
        byId('value-type').value = '';
        const columns = found.columns ?? [];
        byId('column').replaceChildren(...columns.map((name) => element('option', { value: name, text: name })));
        const hasPrefixes = ['rocksdb-table', 'rocksdb-filter', 'filter-block'].includes(found.type);
        byId('prefixes-label').hidden = !hasPrefixes;
        byId('prefixes').checked = false;
        byId('hex').checked = false;
    }

    function shown(value) {
        if (typeof value === 'number') return Number.isInteger(value) ? whole(value) : significant(value);
        return value === '' ? '(none)' : String(value);
    }

    function list(pairs) {
        const isTold = ([, value]) => value !== null && value !== undefined && value !== '';
        return element('dl', {}, pairs.filter(isTold).flatMap(([name, value]) => [element('dt', { text: name.replaceAll('_', ' ') }), element('dd', { text: shown(value) })]));
    }

    // Makes a table. Columns without any value are left out.
    function grid(title, all, allRows) {
        const isUsed = (_, at) => allRows.some((row) => row[at] !== null && row[at] !== undefined);
        const [columns, rows] = [all.filter(isUsed), allRows.map((row) => row.filter(isUsed))];
        const head = element('tr', {}, columns.map((name, at) => element('th', { scope: 'col', class: rows.some((row) => typeof row[at] === 'number') ? 'n' : '', text: name })));
        const body = rows.slice(0, SHOWN).map((row) => element('tr', {}, row.map((value) => element('td', { class: typeof value === 'number' ? 'n' : String(value).length > 32 ? 'wrap' : '', text: shown(value ?? '–') }))));
        const parts = [element('h3', { text: title }), element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title }, [element('table', {}, [element('thead', {}, [head]), element('tbody', {}, body)])])];
        if (rows.length > SHOWN) parts.push(element('p', { class: 'note', text: `${whole(rows.length - SHOWN)} more are not shown; the command shows all with --json.` }));
        return parts;
    }

    // Shows the report, as `inspect` prints it.
    function describe(found) {
        const skipped = ['file', 'filters', 'fields', 'files', 'map', 'notes', 'properties', 'summary', 'columns', 'error'];
        const rates = ['fill', 'fpr', 'expected_false_positive_rate', 'estimated_false_positive_rate'];
        const told = ([name, value]) => [name, rates.includes(name) && typeof value === 'number' ? percent(value) : value];
        const pairs = [...Object.entries(found).filter(([name]) => !skipped.includes(name)), ...Object.entries(found.properties ?? {})];
        const parts = [];
        if (found.notes?.length) parts.push(element('ul', {}, found.notes.map((text) => element('li', { text }))));
        parts.push(list(pairs.map(told)));
        if (found.summary) parts.push(element('h3', { text: 'All filters together' }), list(Object.entries(found.summary).map(told)));
        if (found.filters?.length) {
            const covers = (filter) => filter.column !== undefined ? `row group ${filter.row_group}, ${filter.column}` : filter.up_to_hex !== undefined ? `keys up to ${filter.up_to_hex}` : filter.data_blocks_from !== undefined ? `data blocks from ${filter.data_blocks_from} to ${filter.data_blocks_below}` : 'everything';
            parts.push(...grid('Filters', ['offset', 'bytes', 'kind', 'probes', 'seed', 'fill ratio', 'estimated keys', 'expected FPR', 'covers'], found.filters.map((filter) => [filter.offset, filter.len_bytes, filter.kind, filter.probes ?? (filter.columns ? `${significant(filter.columns)} columns` : null), filter.seed, filter.fill === null ? null : percent(filter.fill), filter.estimated_keys === null ? null : Math.round(filter.estimated_keys), percent(filter.expected_false_positive_rate), covers(filter)])));
        }
        if (found.fields) parts.push(...grid('Fields of the trailer', ['offset', 'bytes', 'field', 'value', 'meaning'], found.fields.map((field) => [field.offset, field.len_bytes, field.name, field.bytes, field.meaning])));
        if (found.files) parts.push(...grid('Files of the index', ['path', 'source', 'keys'], found.files.map((file) => [file.path, file.source, file.keys])));
        byId('report').replaceChildren(...parts);
    }

    async function ask() {
        asks += 1;
        const [asked, status] = [asks, byId('ask-status')];
        const keys = byId('ask-keys').value.split('\n').map((line) => line.replace(/\r$/, '')).filter((line) => line !== '');
        if (!report || !keys.length) {
            status.textContent = '';
            byId('answers').hidden = true;
            return;
        }
        const group = byId('row-group').value.trim();
        const isHex = byId('hex').checked;
        const request = { do: 'ask', keys, hex: isHex, prefixes: byId('prefixes').checked, column: byId('column').value || null, row_group: group || null, value_type: isHex ? null : byId('value-type').value || null };
        const found = await files.ask(request);
        if (asked !== asks || !report) return;
        status.classList.toggle('error', Boolean(found.error));
        byId('answers').hidden = Boolean(found.error);
        if (found.error) {
            status.textContent = found.error;
            if (found.isLost) {
                report = null;
                byId('opened').hidden = true;
                byId('file-status').textContent = found.error;
            }
            return;
        }
        const count = (answer) => found.answers.filter((one) => one.answer === answer).length;
        const wrong = found.answers.filter((one) => one.error).length;
        status.textContent = [`${whole(count('maybe'))} maybe, ${whole(count('absent'))} absent${wrong ? `, ${whole(wrong)} not understood` : ''}; ${reads()}.`, found.remark].filter(Boolean).join(' Note: ');
        byId('answers').tBodies[0].replaceChildren(...found.answers.map((one) => {
            const why = one.error ?? [one.doubt, one.places?.slice(0, 20).join(', '), one.places?.length > 20 ? `and ${one.places.length - 20} more` : null].filter(Boolean).join('; ');
            return element('tr', {}, [element('th', { scope: 'row', class: 'typed' }, keyNodes(one.key)), element('td', { class: one.answer ?? 'error', text: one.answer ?? 'no answer' }), element('td', { class: 'wrap', text: why })]);
        }));
    }

    // Most messages name the damage themselves.
    const damage = (text) => (text.startsWith('damaged') ? `D${text.slice(1)}` : `Damaged: ${text}`);

    async function verify() {
        const [button, status, opening] = [byId('verify'), byId('verify-status'), openings];
        button.disabled = true;
        status.textContent = 'Checking …';
        const found = await files.ask({ do: 'verify' });
        button.disabled = false;
        if (opening !== openings) return;
        const walked = Object.entries(found.walked ?? {}).map(([name, value]) => (name === 'note' ? value : `${whole(value)} ${name.replaceAll('_', ' ')}`)).join(', ');
        status.textContent = found.error ?? (found.sound ? `Sound${walked ? `: ${walked}` : ''}.` : damage(found.damage));
    }

    let timer = null;
    byId('ask-form').addEventListener('input', () => {
        clearTimeout(timer);
        timer = setTimeout(ask, 120);
    });
    byId('ask-form').addEventListener('submit', (event) => event.preventDefault());
    byId('verify').addEventListener('click', verify);
    const chosen = () => byId('file').files[0];
    [byId('file'), byId('format'), byId('key-form')].forEach((input) => input.addEventListener('change', () => chosen() && open(chosen())));
    // The same file may be chosen again, after it has changed.
    byId('file').addEventListener('click', () => { byId('file').value = ''; });
    const drop = byId('drop');
    self.addEventListener('dragover', (event) => {
        event.preventDefault();
        drop.classList.add('over');
    });
    self.addEventListener('dragleave', () => drop.classList.remove('over'));
    self.addEventListener('drop', (event) => {
        event.preventDefault();
        drop.classList.remove('over');
        if (!event.dataTransfer.files.length) return;
        byId('tab-inspector').click();
        byId('file').files = event.dataTransfer.files;
        open(event.dataTransfer.files[0]);
    });
    filterblock.files = files;
});
