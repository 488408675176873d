// Small helpers: elements, SVG, numbers, and plots with a logarithmic y axis.
'use strict';
(() => {
    const byId = (id) => document.getElementById(id);

    // Makes an element. `attributes` may have `text` and `class`.
    function element(name, attributes = {}, children = [], space = null) {
        const made = space ? document.createElementNS(space, name) : document.createElement(name);
        for (const [key, value] of Object.entries(attributes)) {
            if (key === 'text') made.textContent = value;
            else if (value !== null && value !== undefined) made.setAttribute(key, value);
        }
        made.append(...children);
        return made;
    }
    const svg = (name, attributes, children) => element(name, attributes, children, 'http://www.w3.org/2000/svg');

    // Formats a number with three digits, as the command does.
    function significant(value) {
        if (value === null || value === undefined) return '–';
        if (!Number.isFinite(value)) return String(value);
        const size = Math.abs(value);
        if (size >= 999.5) return Math.round(value).toLocaleString('en');
        if (size !== 0 && size < 1e-7) return value.toExponential(2).replace('e', ' e');
        if (size === 0) return '0';
        const digits = Math.max(0, 2 - Math.floor(Math.log10(size * 1.0005)));
        return value.toFixed(Math.min(digits, 9));
    }
    const percent = (share) => (share === null || share === undefined ? '–' : `${significant(share * 100)} %`);
    const grouped = (text) => (/^\d+$/.test(text) ? text.replace(/\B(?=(\d{3})+$)/g, ',') : text);
    const whole = (value) => (value === null || value === undefined ? '–' : typeof value === 'string' ? grouped(value) : value.toLocaleString('en'));
    function bytes(len) {
        const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
        let unit = 0;
        while (len >= 1024 && unit < units.length - 1) {
            len /= 1024;
            unit += 1;
        }
        return `${unit ? significant(len) : whole(len)} ${units[unit]}`;
    }

    // Shows white space in a key as signs, so that a trailing space is seen.
    const SIGNS = { ' ': '␣', '\t': '⇥' };
    const sign = (space) => SIGNS[space] ?? `\\u{${space.codePointAt(0).toString(16)}}`;
    const visible = (key) => key.replace(/\s/g, sign);
    const keyNodes = (key) => key.split(/(\s)/).filter(Boolean).map((part) => (/^\s$/.test(part) ? element('span', { class: 'space', text: sign(part) }) : part));

    // Moves heights apart, in their order, without passing `end`.
    function apart(heights, step, end) {
        const order = heights.map((height, i) => [height, i]).sort(([one], [other]) => one - other);
        const moved = [];
        order.forEach(([height], rank) => moved.push(Math.max(height, rank ? moved[rank - 1] + step : height)));
        for (let rank = moved.length - 1, most = end; rank >= 0; rank -= 1, most -= step) moved[rank] = Math.min(moved[rank], most);
        const placed = [];
        order.forEach(([, i], rank) => { placed[i] = moved[rank]; });
        return placed;
    }

    // Draws curves `{ name, class, points: [[x, y], …], marks: [[x, y], …] }` over a logarithmic y axis. Curves have
    // their names at their right ends; dots have none.
    function plot(parent, { title, xName, x, curves, isDotted }) {
        // A hidden tool has no width; it is drawn again when it is shown.
        const width = Math.max(300, parent.clientWidth || 560);
        const [height, left, top, bottom, right] = [320, 64, 12, 44, isDotted ? 12 : 120];
        const end = width - right;
        const all = curves.flatMap((curve) => [...curve.points, ...(curve.marks ?? [])]).filter(([, y]) => y > 0);
        const low = Math.max(-14, Math.floor(Math.min(-1, ...all.map(([, y]) => Math.log10(y)))));
        const toX = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (end - left);
        const toY = (value) => top + (Math.max(low, Math.min(0, Math.log10(value))) / low) * (height - top - bottom);
        const parts = [];
        const step = Math.ceil(-low / 7);
        for (let power = 0; power >= low; power -= step) {
            const y = toY(10 ** power);
            parts.push(svg('line', { class: 'grid', x1: left, x2: end, y1: y, y2: y }));
            parts.push(svg('text', { x: left - 6, y: y + 4, 'text-anchor': 'end', text: power === 0 ? '1' : power > -4 ? String(10 ** power) : `1e${power}` }));
        }
        const xStep = (x[1] - x[0]) / 6;
        for (let i = 0; i <= 6; i += 1) {
            const value = Math.round(x[0] + i * xStep);
            parts.push(svg('line', { class: 'grid', x1: toX(value), x2: toX(value), y1: top, y2: height - bottom + 4 }));
            parts.push(svg('text', { x: toX(value), y: height - bottom + 18, 'text-anchor': 'middle', text: value }));
        }
        parts.push(svg('text', { x: (left + end) / 2, y: height - 6, 'text-anchor': 'middle', text: xName }));
        parts.push(svg('path', { class: 'axis', d: `M${left} ${top}V${height - bottom}H${end}` }));
        const ends = [];
        for (const curve of curves) {
            const points = curve.points.filter(([px, y]) => y > 0 && px >= x[0] && px <= x[1]).map(([px, y]) => [toX(px), toY(y)]);
            if (!isDotted) parts.push(svg('path', { class: `curve ${curve.class}`, d: points.map(([px, y], i) => `${i ? 'L' : 'M'}${px.toFixed(1)} ${y.toFixed(1)}`).join('') }));
            else points.forEach(([cx, cy]) => parts.push(svg('circle', { class: `area ${curve.class}`, cx, cy, r: 3.5 })));
            if (!isDotted && points.length) ends.push({ at: points.at(-1), curve });
            for (const [px, y] of curve.marks ?? []) {
                if (px >= x[0] && px <= x[1] && y > 0) parts.push(svg('circle', { class: `dot ${curve.class}`, cx: toX(px), cy: toY(y), r: 6 }, [svg('title', { text: `${curve.name}: ${significant(px)}, FPR ${percent(y)}` })]));
            }
        }
        const heights = apart(ends.map(({ at }) => at[1]), 16, height - bottom);
        ends.forEach(({ at: [px, y], curve }, i) => {
            parts.push(svg('path', { class: `leader ${curve.class}`, d: `M${px} ${y}L${end + 10} ${heights[i]}` }));
            parts.push(svg('text', { class: `end ${curve.class}`, x: end + 13, y: heights[i] + 4, text: curve.name }));
        });
        parent.replaceChildren(svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title }, parts));
    }

    self.draw = { byId, element, svg, significant, percent, whole, bytes, visible, keyNodes, plot };
})();
