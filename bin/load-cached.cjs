// Loads the bundle of the command line or of the worker with V8's code cache, a file next to each bundle file. The
// build makes the caches, because a light command spends a third of its time on compiling. Without a valid cache, V8
// compiles.
const { readFileSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');
const { constants, Script } = require('node:vm');

const HEAD = '(function (exports, require, module, __filename, __dirname) { ';
// Gives `import()` in a file its usual meaning. Node warns that this is experimental, which does not concern users.
const { emitWarning } = process;
process.emitWarning = (/** @type {string | Error} */ warning, ...rest) =>
  String(warning).includes('USE_MAIN_CONTEXT_DEFAULT_LOADER') ? undefined : emitWarning.call(process, warning, ...rest);
const IMPORTS = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;

/** Node 20 refuses `import()` in a function from a V8 cache, so such a file gets no cache. */
const HAS_IMPORT = /\bimport\s*\(/;

/**
 * @param {string} main an absolute path; files that it requires by `./` are loaded the same way
 * @returns {{ exports: any, saveCaches: () => void, rejected: readonly string[] }}
 */
function loadCached(main) {
  const outer = createRequire(main);
  const folder = dirname(main);
  const [modules, scripts, rejected] = [new Map(), new Map(), []];
  const load = (/** @type {string} */ file) => {
    const known = modules.get(file);
    if (known !== undefined) return known.exports;
    const module = { exports: {} };
    modules.set(file, module);
    const cachedData = readCache(file);
    const script = new Script(`${HEAD}${readFileSync(file, 'utf8')}\n})`, {
      filename: file,
      columnOffset: -HEAD.length,
      importModuleDynamically: IMPORTS,
      ...(cachedData === null ? {} : { cachedData }),
    });
    if (script.cachedDataRejected) rejected.push(file);
    scripts.set(file, script);
    const require = Object.assign(
      (/** @type {string} */ id) => (id.startsWith('./') ? load(join(folder, id)) : outer(id)),
      { resolve: outer.resolve },
    );
    script.runInThisContext().call(module.exports, module.exports, require, module, file, folder);
    return module.exports;
  };
  return {
    exports: load(main),
    rejected,
    // After a command has run, its cache contains the functions that the command called.
    saveCaches: () =>
      scripts.forEach((script, file) => {
        if (!HAS_IMPORT.test(readFileSync(file, 'utf8'))) writeFileSync(cacheOf(file), script.createCachedData());
      }),
  };
}

/** @param {string} file */
function cacheOf(file) {
  return `${file}.cache`;
}

/** @param {string} file */
function readCache(file) {
  try {
    return readFileSync(cacheOf(file));
  } catch {
    return null;
  }
}

module.exports = { loadCached };
