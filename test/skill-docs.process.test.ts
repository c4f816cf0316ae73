/** The code in docs/reference/skill-kit.md compiles and runs as an author would copy it, against the built package. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { TemporaryFolder } from './rig/skills/skill-command.ts';

const ROOT = findPackageRoot();
const run = promisify(execFile);

it('the code of docs/reference/skill-kit.md type-checks, and its program starts', { timeout: 300_000 }, async () => {
  using folder = new TemporaryFolder();
  const [greeter, reminder, writer, main, adder, ...others] = blocksOf('docs/reference/skill-kit.md');
  expect(others).toEqual([]);
  mkdirSync(folder.file('node_modules'));
  symlinkSync(ROOT, folder.file('node_modules/voidbox'));
  symlinkSync(join(ROOT, 'node_modules/@types'), folder.file('node_modules/@types'));
  writeFileSync(folder.file('package.json'), '{"type":"module"}');
  const files = {
    'skill.ts': greeter,
    'reminder.ts': reminder,
    'writer.ts': writer,
    'adder.test.ts': adder,
    'main.ts': main,
    'writer-main.ts': main?.replace('./skill.ts', './writer.ts'),
  };
  for (const [name, code] of Object.entries(files)) writeFileSync(folder.file(name), code ?? '');
  const compilerOptions = {
    target: 'es2023',
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    rewriteRelativeImportExtensions: true,
  };
  writeFileSync(
    folder.file('tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...compilerOptions, types: ['node'], outDir: 'bin' }, include: ['*.ts'] }),
  );
  const compiled = run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', folder.path], {
    cwd: folder.path,
  });
  expect(await compiled.catch((error: unknown) => (error as { stdout: string }).stdout)).toMatchObject({
    stdout: '',
    stderr: '',
  });

  const start = async (script: string, ...args: string[]): Promise<unknown> =>
    JSON.parse(
      (await run(process.execPath, [folder.file(`bin/${script}`), 'start', ...args], { cwd: folder.path })).stdout,
    );
  expect(await start('main.js', '--params', '{"place":"Ulm"}')).toMatchObject({
    kind: 'prompt',
    prompt: '<prompt>\nAsk the visitor of Ulm for a name.\n</prompt>',
  });
  expect(await start('writer-main.js')).toMatchObject({ kind: 'prompt', step: 'title' });
  await run(process.execPath, [folder.file('bin/adder.test.js')], { cwd: folder.path });
  // The code that authors copy has no faults of its own.
  const lint = run(
    process.execPath,
    [join(ROOT, 'bin/voidbox.js'), 'skill', 'lint', '--max-warnings', '0', 'skill.ts', 'reminder.ts', 'writer.ts'],
    { cwd: folder.path },
  );
  expect(await lint.catch((error: unknown) => (error as { stdout: string }).stdout)).toMatchObject({
    stdout: 'no problems\n',
  });
});

function blocksOf(page: string): readonly string[] {
  return [...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code!);
}
