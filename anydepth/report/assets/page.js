// Titles work alone; this shows them at once, to a finger and to the keyboard as well.
(() => {
  const tip = document.createElement('div');
  tip.id = 'tip'; tip.hidden = true; tip.setAttribute('role', 'status');
  document.body.append(tip);
  for (const point of document.querySelectorAll('.point')) {
    const title = point.querySelector('title');
    point.dataset.tip = title.textContent;
    point.setAttribute('role', 'img');
    point.setAttribute('aria-label', title.textContent);
    point.setAttribute('tabindex', '-1');
    title.remove();
  }
  for (const told of document.querySelectorAll('[title]')) { told.dataset.tip = told.title; told.removeAttribute('title'); }
  const show = (told) => {
    tip.textContent = told.dataset.tip; tip.hidden = false;
    const box = told.getBoundingClientRect(), size = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
    const left = Math.min(Math.max(box.left + box.width / 2 - size.width / 2, 8), room - size.width - 8);
    const above = box.top - size.height - 8;
    tip.style.left = left + scrollX + 'px';
    tip.style.top = (above > 4 ? above : box.bottom + 8) + scrollY + 'px';
  };
  const hide = () => { tip.hidden = true; };
  const follow = (event) => { const told = event.target.closest('[data-tip]'); if (told) show(told); else hide(); };
  for (const name of ['pointerover', 'focusin', 'click']) document.addEventListener(name, follow);
  document.addEventListener('focusout', hide);
  for (const chart of document.querySelectorAll('.chart svg')) {
    chart.setAttribute('tabindex', '0');
    const points = [...chart.querySelectorAll('.point')];
    chart.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === 'Escape') { chart.focus(); hide(); }
      if (!step || !points.length) return;
      event.preventDefault();
      const here = points.indexOf(document.activeElement);
      points[here < 0 ? (step > 0 ? 0 : points.length - 1) : (here + step + points.length) % points.length].focus();
    });
  }
})();
