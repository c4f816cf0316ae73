import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Plugin } from 'rolldown';
import { beforeAll, describe, expect, it } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { bundle } from './bundle.ts';
import { lazyArktype } from './lazy-arktype.ts';

const run = promisify(execFile);
const ENTRY = join(findPackageRoot(), 'entry-of-a-test.js');
/** What ArkType says of all of its keywords, of values that each is given, and of what is made of them. */
const CODE = `
  import { configure } from 'arktype/config';
  configure({ jitless: true });
  const { scope, type } = await import('arktype');
  const said = (ask) => { try { const found = ask(); return found === undefined ? null : found; } catch (error) { return String(error); } };
  const VALUES = ['', 'a', 'A', '12', '1.5', '{"a":1}', 'a@b.example', '127.0.0.1', '2024-01-02', '550e8400-e29b-41d4-a716-446655440000', 'http://x/', '1.2.3',
    0, 3, -1.5, NaN, 1e20, true, null, undefined, 1n, [], ['a'], {}, { a: 1 }, new Date(0), new Map(), new FormData(), new Headers(), () => 1, Symbol.iterator];
  const shown = (value) => (typeof value === 'symbol' || typeof value === 'bigint' ? String(value) : value instanceof type.errors ? value.summary : said(() => JSON.stringify(value)));
  const described = (found) => ({
    json: said(() => found.json), expression: said(() => found.expression), description: said(() => found.description), schema: said(() => found.toJsonSchema?.()),
    given: found.allows === undefined ? null : VALUES.map((value) => said(() => [found.allows(value), shown(found(value))])),
  });
  const all = {};
  const walk = (module, prefix) => {
    for (const [name, found] of Object.entries(module)) {
      if (typeof found === 'object') walk(found, prefix + name + '.');
      else all[prefix + name] = described(found);
    }
  };
  walk(type.keywords, '');
  const own = scope({ Id: 'string.uuid | number.integer', Tree: { id: 'Id', 'under?': 'Tree[]', kind: "'leaf' | 'branch' | 3" }, 'Box<t extends string | number>': { of: 't' }, Small: 'Box<"a">', '#hidden': 'string' });
  walk(own.export(), 'own.');
  const { Tree } = own.export();
  const made = {
    merged: type.merge({ a: 'string' }, { a: 'number', b: 'string.date.parse' }), both: type.and({ a: 'string' }, { b: 'number' }), either: type({ kind: "'a'", a: 'string' }, '|', { kind: "'b'", b: 'number' }),
    piped: type.pipe(type('string'), (text) => text.length), picked: type({ a: 'string', b: 'number?' }).pick('a'), record: type('Record<string, number>'), map: type.instanceOf(Map),
  };
  walk(made, 'made.');
  const add = said(() => type.fn('number', 'number', ':', 'number')((a, b) => a + b));
  const matched = said(() => type.match({ string: (text) => text.length, number: (n) => n + 1, default: 'assert' }));
  console.log(JSON.stringify({ all, json: own.json, tree: shown(Tree({ id: 4, kind: 'leaf', under: [{ id: 'x', kind: 'branch' }] })), sum: said(() => add(1, 2)), wrong: said(() => add(1, 'b')), matched: [said(() => matched('abc')), said(() => matched(1)), said(() => matched(null))] }));
`;

/** ArkType numbers nameless functions, and the members of types that hold themselves, in the order in which it meets them. */
function renumbered(text: string): string {
  const numbers = new Map<string, number>();
  return text.replaceAll(/\b(fn|intersection|union)\d*\b/g, (name, kind: string) => {
    numbers.set(name, numbers.get(name) ?? numbers.size);
    return `${kind}#${numbers.get(name)}`;
  });
}

const folder = new TemporaryFolder();
let modules: readonly string[];
beforeAll(async () => {
  writeFileSync(
    folder.file('names.js'),
    `import ${JSON.stringify(join(findPackageRoot(), 'node_modules/arktype/out/index.js'))};`,
  );
  ({ modules } = await bundle(folder.file('names.js')));
  return () => folder[Symbol.dispose]();
});

describe('ArkType in a program that runs for one call', () => {
  it('says of all its keywords, and of types made of them, what it says else', async () => {
    const said = async (name: string, plugins: readonly Plugin[]): Promise<unknown> => {
      const { code } = await bundle(ENTRY, { program: { main: CODE, plugins } });
      writeFileSync(folder.file(name), code);
      const { stdout } = await run(process.execPath, [folder.file(name)], { maxBuffer: 2 ** 26 });
      return JSON.parse(renumbered(stdout));
    };
    const [expected, lazy] = await Promise.all([said('as-is.mjs', []), said('lazy.mjs', lazyArktype(modules))]);
    expect(Object.keys((expected as { readonly all: object }).all).length).toBeGreaterThan(100);
    expect(lazy).toEqual(expected);
  });

  it.each([
    ['the types that are built in', /\.intrinsic = \$ark/, /get: \(\) => this\.cacheGetter\(["']intrinsic["']/],
    ['what a scope exports, as JSON', /\._json = resolutionsToJson/, /get: \(\) => this\.cacheGetter\(["']_json["']/],
    [
      'what tells the members of a union apart',
      /discriminant = this\.discriminate\(\)/,
      /discriminant = this\.\$\.resolvedConfig\.jitless \? null/,
    ],
    [
      'classes of the web',
      /&& builtinConstructors\[constructorName\] === ctor/,
      /isStoodInFor\(constructorName, ctor\)/,
    ],
  ])('does not set up %s before it is asked', async (_what, eager, lazy) => {
    const program = { main: "import 'arktype';" };
    const [asIs, built] = await Promise.all([
      bundle(ENTRY, { program }),
      bundle(ENTRY, { program: { ...program, plugins: lazyArktype(modules) } }),
    ]);
    expect({ eager: eager.test(asIs.code), lazy: lazy.test(asIs.code) }).toEqual({ eager: true, lazy: false });
    expect(lazy.test(built.code)).toBe(true);
  });

  it('is not changed if it does these things in another way', async () => {
    const program = { main: "import 'arktype';" };
    const changed = {
      name: 'another-arktype',
      transform: {
        order: 'pre' as const,
        handler: (code: string) => code.replace('this.intrinsic =', 'this.intrinsic = this.early ='),
      },
    };
    const { code } = await bundle(ENTRY, { program: { ...program, plugins: [changed, ...lazyArktype(modules)] } });
    expect({
      asIs: /this\.intrinsic = this\.early =/.test(code),
      lazy: /cacheGetter\(["']intrinsic["']/.test(code),
    }).toEqual({ asIs: true, lazy: false });
  });
});
