// Makes the tables sortable: each column heading becomes a button.
'use strict';
for (const table of document.querySelectorAll('table.sorts')) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  // Rows without a value come last in both orders.
  const order = (column, sign) => (one, other) => {
    const [a, b] = [one.cells[column], other.cells[column]];
    if (!('sort' in a.dataset)) {
      return sign * a.textContent.localeCompare(b.textContent, 'en', {numeric: true});
    }
    const [x, y] = [a.dataset.sort, b.dataset.sort];
    return x === '' || y === '' ? (x === '') - (y === '') : sign * (Number(x) - Number(y));
  };
  headings.forEach((heading, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener('click', () => {
      const down = heading.getAttribute('aria-sort') === 'ascending';
      for (const each of headings) each.removeAttribute('aria-sort');
      heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      body.append(...[...body.rows].sort(order(column, down ? -1 : 1)));
    });
  });
}
