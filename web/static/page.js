// The page around the tools: tabs, colours, the link to the current numbers, and the start.
'use strict';
(async () => {
    const { byId } = draw;
    const tabs = [...document.querySelectorAll('[role="tab"]')];

    // The fragment of the address has the numbers, so that a link shows them again.
    const link = {
        read: () => new URLSearchParams(location.hash.slice(1)),
        write(values) {
            const all = link.read();
            Object.entries(values).forEach(([key, value]) => (value === null ? all.delete(key) : all.set(key, value)));
            history.replaceState(null, '', `#${all}`);
        },
    };

    function show(tab, isFocused) {
        for (const other of tabs) {
            const isShown = other === tab;
            other.setAttribute('aria-selected', isShown);
            other.tabIndex = isShown ? 0 : -1;
            byId(other.getAttribute('aria-controls')).hidden = !isShown;
        }
        if (isFocused) tab.focus();
        link.write({ view: tab.getAttribute('aria-controls') });
        // A tool that was hidden had no size.
        self.dispatchEvent(new Event('resize'));
    }

    tabs.forEach((tab, i) => {
        tab.addEventListener('click', () => show(tab));
        tab.addEventListener('keydown', ({ key }) => {
            const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[key];
            if (to !== undefined) show(tabs.at(to % tabs.length), true);
        });
    });
    byId('skip').addEventListener('click', (event) => {
        // The fragment holds numbers, so the link must not replace it.
        event.preventDefault();
        byId('main').focus();
    });

    const dark = matchMedia('(prefers-color-scheme: dark)');
    function paint(isDark) {
        document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
        byId('theme').setAttribute('aria-pressed', isDark);
    }
    paint(dark.matches);
    dark.addEventListener('change', () => paint(dark.matches));
    byId('theme').addEventListener('click', () => paint(document.documentElement.dataset.theme !== 'dark'));

    const first = byId(`tab-${link.read().get('view')}`);
    if (first) show(first);
    try {
        const engine = await filterblock.start();
        filterblock.engine = engine;
        filterblock.tools.forEach((tool) => tool(engine, link));
        document.documentElement.dataset.ready = Math.round(performance.now());
    } catch (error) {
        byId('failure').textContent = `The page cannot start: ${error.message}. It needs a browser of 2023 or later.`;
    }
})();
