/** A program that Node starts with `--require` of a copy of this file appends the paths of its loaded modules to `<copy>.txt` when it ends. */
process.on('exit', () =>
  require('node:fs').appendFileSync(`${__filename}.txt`, `${Object.keys(require.cache).join('\n')}\n`),
);
