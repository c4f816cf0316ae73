/** Definitions in TypeScript and JavaScript, by the real command line: mistakes are reported at the author's lines. */
import { mkdirSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Terminal, type Typed } from '../cli/transcript.ts';

let terminal: Terminal;
beforeEach(() => {
  terminal = new Terminal();
});
afterEach(() => terminal.dispose());

async function validate(file: string, text: string, ...args: readonly string[]): Promise<Typed> {
  terminal.file(file, text);
  return await terminal.type('validate', file, ...args);
}

const USES = "import { defineWorkflow, definePipeline, box, fanOut, fromHost, param, step } from 'voidbox';\n";

test.each(['one.ts', 'one.mts', 'one.js', 'one.mjs'])('%s is a definition', async (file) => {
  const done = await validate(
    file,
    `${USES}export default defineWorkflow({ name: 'one', steps: [step('a', ['echo', 'hello'])] });\n`,
  );
  expect(done).toEqual({
    code: 0,
    stdout: `valid: ${file} (workflow one, 1 stage, 1 VM)\n  a  echo hello, in its own VM\n`,
    stderr: '',
  });
});

test('types, further files, parameters and mounts of the folder of the definition', async () => {
  mkdirSync(`${terminal.dir}/specs/data`, { recursive: true });
  terminal.file(
    'specs/cities.ts',
    `import { type Step, step } from 'voidbox';
     export const of = <T extends string>(city: T): Step => step(city, ['ls', '/data']);`,
  );
  const done = await validate(
    'specs/main.ts',
    `${USES}import { of } from './cities.ts';
     const cities = (['bonn', 'cork'] as const).map(of);
     export default defineWorkflow({
       name: 'cities', params: { who: { description: 'whom' } }, sandbox: { mounts: [{ host: 'data', guest: '/data' }] },
       steps: [...cities, step('all', ['echo', param('who')], { dependsOn: cities })],
     });`,
    '--param',
    'who=ada',
  );
  expect(done, done.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('all   echo ada, after bonn, cork'),
  });
});

test('triggers of a definition are checked in its own words', async () => {
  const define = (delayMs: number): string =>
    `${USES}const report = step('report', ['true']);
     export default defineWorkflow({
       name: 'x', steps: [report],
       on: [
         { name: 'night', schedule: { cron: '30 2 * * *', timezone: 'Europe/Berlin' } },
         {
           name: 'hook',
           webhook: { verify: 'github', secret: 'HOOK_SECRET', respond: { output: report } },
           debounce: { delayMs: ${delayMs}, maxDelayMs: 60_000 },
         },
       ],
     });`;
  expect(await validate('x.ts', define(1_000))).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(
      'triggers of a deployment: night (30 2 * * *, Europe/Berlin), hook (webhook, github)\nsecrets of its triggers: HOOK_SECRET\n',
    ),
    stderr: expect.stringMatching(
      /^\nx\.ts:1:1: warning\[deploy\/secret-missing\]: .* HOOK_SECRET\n.*\n\n1 warning\n$/,
    ),
  });
  const long = await validate('x.ts', define(90_000));
  expect(long).toMatchObject({ code: 2, stderr: expect.stringContaining('a `maxDelayMs` that is shorter than its') });
  const short = await validate('x.ts', define(5));
  expect(short).toMatchObject({ code: 2, stderr: expect.stringContaining('`delayMs` of `debounce`') });
  expect(short.stderr).toContain('write milliseconds, from 100 to 86400000');
});

test('files of the folder are listed, of a definition and of a spec', async () => {
  const of = (pattern: string): string =>
    `import { defineWorkflow, files, step } from 'voidbox';
     export default defineWorkflow({ name: 'x', steps: [step('a', ['true'], { forEach: files('${pattern}') })] });`;
  const spec = (pattern: string): string =>
    `kind: workflow\nname: x\nworkflow: { steps: [{ name: a, for_each: 'files("${pattern}")', run: { program: "true" } }] }\n`;
  mkdirSync(`${terminal.dir}/specs`);
  terminal.file('specs/data.csv', '');
  for (const [file, text] of [
    ['specs/a.ts', of],
    ['specs/a.yaml', spec],
  ] as const) {
    expect(await validate(file, text('*.csv'))).toMatchObject({ code: 0, stderr: '' });
    expect(await validate(file, text('*.txt'))).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('no file below /DIR/specs matches "*.txt"'),
    });
  }
});

describe('a mistake in a definition is reported at the call that made it', () => {
  test('a mistake in a step, in a step from another file, or in the whole definition has the place of its call', async () => {
    terminal.file(
      'late.ts',
      "import { step } from 'voidbox';\nexport const late = (name: string) =>\n  step(name, ['true'], { cwd: 'here' });\n",
    );
    const done = await validate(
      'bad.ts',
      `${USES}import { late } from './late.ts';
const first = step('first', ['true'], { timeoutMs: 0 });
const gone = step('gone', ['true']);
export default defineWorkflow({
  name: 'bad name',
  steps: [
    first,
    late('second'),
    step('third', ['echo', param('none')], { dependsOn: [gone] }),
  ],
});
`,
    );
    expect(done.code).toBe(2);
    expect(done.stderr).toMatchSnapshot();
  });

  test('a mistake in the use of a part has its place in the definition, and a mistake in the part has its place in its file', async () => {
    terminal.file(
      'p.yaml',
      'kind: workflow\nname: p\nworkflow:\n  steps:\n    - { name: s, run: { program: a, cwd: here } }\n',
    );
    const done = await validate(
      'bad.ts',
      `${USES.replace('box,', 'box, part,')}
export default defineWorkflow({
  name: 'x',
  steps: [step('a', ['true']), part('p', './p.yaml'), part('gone', './gone.yaml')],
  output: step('a', ['true']),
});
`,
    );
    expect(done.code).toBe(2);
    expect(done.stderr).toMatch(/p\.yaml:5:\d+: error\[spec\/bad-path\]/);
    expect(done.stderr).toMatch(/bad\.ts:5:\d+: error\[spec\/bad-part\]: .*there is no such file/);
  });

  test('a mistake in a definition that is a part has the place of the call that made its step', async () => {
    const done = await validate(
      'bad.ts',
      `${USES.replace('box,', 'box, part,')}
const inner = defineWorkflow({
  name: 'inner',
  steps: [step('ok', ['true']), step('in', ['true'], { cwd: 'here' })],
  output: step('ok', ['true']),
});
export default defineWorkflow({
  name: 'x',
  steps: [
    part('p', inner),
    step('out', ['true'], { cwd: 'there', dependsOn: [part('p', inner)] }),
  ],
});
`,
    );
    expect(done.code).toBe(2);
    expect(done.stderr).toMatch(/bad\.ts:5:33: error\[spec\/bad-path\]: .*"here"/);
    expect(done.stderr).toMatch(/bad\.ts:12:5: error\[spec\/bad-path\]: .*"there"/);
  });

  test('a mistake in a box, or in the stages that list it, has the place of its call', async () => {
    const done = await validate(
      'bad.mjs',
      `${USES}
const one = box('one', ['true']);
const two = box('two', ['true'], { outputs: { data: '/etc' } });
export default definePipeline({
  name: 'twice',
  stages: [one, two, one],
});
`,
      '--json',
    );
    const { diagnostics } = JSON.parse(done.stdout) as {
      diagnostics: readonly { code: string; file: string; line: number }[];
    };
    expect(diagnostics.map(({ code, file, line }) => `${code} ${file}:${line}`)).toEqual([
      'spec/bad-path bad.mjs:4',
      'spec/box-used-twice bad.mjs:5',
    ]);
  });
});

describe('a module that is not a definition gets one diagnostic', () => {
  test.each([
    ['no default export', 'export const a = 1, b = 2;', 1, 'the module has no default export; it exports a, b'],
    ['nothing', '', 1, 'the module has no default export'],
    ['a step', `${USES}export default step('a', ['true']);`, 1, 'the default export is a step, not a definition'],
    [
      'a promise',
      'export default Promise.resolve(1);',
      1,
      'the default export is a promise; await it, not a definition',
    ],
    [
      'a look-alike',
      "export default { name: 'x', source: '{}' };",
      1,
      'the default export is an object that neither `defineWorkflow` nor `definePipeline` made, not a definition',
    ],
    [
      'code that throws',
      `${USES}\n\nconst none: string[] | undefined = undefined;\nexport default step(none!.join(), ['x']);`,
      5,
      'throws when it is loaded: TypeError: Cannot read prop',
    ],
    [
      'an option that does not exist',
      `${USES}\n\nconst options: object = { dependOn: [] };\nexport default step('a', ['x'], options);`,
      5,
      'options of step "a": there is no `dependOn`; did you mean "dependsOn"?',
    ],
    ['something thrown that is no error', 'throw "this";', 1, 'the definition throws when it is loaded: this'],
    ['a syntax error', 'const a = 1;\nexport default {', 2, 'Expected'],
    [
      'an import that is not there',
      "import a from './none.ts';\nexport default a;",
      1,
      "Could not resolve './none.ts'",
    ],
    [
      'a wait for nothing',
      'await new Promise(() => undefined);\nexport default 1;',
      1,
      'the definition waits for a promise that is never settled',
    ],
    [
      'an end of the process',
      'process.exit(0);',
      1,
      'the process that loads the definition ended with 0 before the definition was loaded',
    ],
  ])('%s', async (_what, text, line, message) => {
    const done = await validate('x.ts', text, '--json');
    expect(done.code).toBe(2);
    const { valid, diagnostics } = JSON.parse(done.stdout) as { valid: boolean; diagnostics: readonly unknown[] };
    expect({ valid, diagnostics }).toEqual({
      valid: false,
      diagnostics: [
        expect.objectContaining({
          code: 'spec/definition',
          file: 'x.ts',
          line,
          message: expect.stringContaining(message),
        }),
      ],
    });
  });
});

test('the output of a definition does not get into the answer, and open resources do not hold it up', async () => {
  const done = await validate(
    'loud.ts',
    `${USES}console.log('loud'); setInterval(() => undefined, 1_000);
     export default defineWorkflow({ name: 'loud', steps: [step('a', ['true'])] });`,
    '--json',
  );
  expect(JSON.parse(done.stdout)).toMatchObject({ valid: true });
  expect(done.stderr).toBe('loud\n');
});

test('a definition finds no variable of the environment that could hold a secret; a plan takes those by name', async () => {
  terminal.variables = { API_TOKEN: 'hunter2', LANG: 'C.UTF-8' };
  const done = await validate(
    'env.ts',
    `${USES}export default defineWorkflow({ name: 'env', steps: [
       step('a', ['echo', String(process.env.API_TOKEN), String(process.env.LANG)], { env: { API_TOKEN: fromHost } })] });`,
  );
  expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining('a  echo undefined C.UTF-8') });
});
