// Light or dark: what the system says, until the reader chooses. This is a plain script, not a module: it runs before
// the page is drawn, so that a chosen theme does not flash.
(() => {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');

  // The theme that was chosen before; storage may be switched off, then there is none.
  const remembered = () => { try { return localStorage.getItem('theme'); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem('theme', theme); } catch { /* it holds for this visit */ } };
  const shown = () => root.dataset.theme ?? (system.matches ? 'dark' : 'light');
  const other = () => (shown() === 'dark' ? 'light' : 'dark');

  const chosen = remembered();
  if (chosen === 'dark' || chosen === 'light') root.dataset.theme = chosen;

  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    const label = () => { button.textContent = other() === 'dark' ? 'Dark theme' : 'Light theme'; };
    button.addEventListener('click', () => {
      root.dataset.theme = other();
      remember(root.dataset.theme);
      label();
    });
    system.addEventListener('change', label);
    label();
  });
})();
