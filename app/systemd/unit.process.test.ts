import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { runProgram } from '../../setup/pieces/run-program.ts';
import { quoteCommand, renderServeUnit, renderUnit } from './unit-text.ts';

const env = readEnvironment();
const tool = await runProgram(env, 'systemd-analyze', ['--version']);
const isNew = Number(/^systemd (\d+)/.exec(tool.stdout)?.[1]) >= 254;

test.skipIf(tool.exitCode !== 0)(
  'systemd-analyze, if this machine has it, finds no mistake in the unit, and one in a wrong unit',
  { timeout: 60_000 },
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'voidbox-unit-'));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const folder = join(dir, 'a "b" %h $HOME \\');
    mkdirSync(folder);
    const main = join(folder, 'main.js');
    writeFileSync(main, '');
    const verify = async (text: string) => {
      const file = join(dir, 'voidbox.service');
      writeFileSync(file, text);
      const variables = { XDG_RUNTIME_DIR: dir };
      const { exitCode, stderr } = await runProgram(env, 'systemd-analyze', ['--user', 'verify', file], { variables });
      // systemd before 254 ignores this key, and the VMs have no control groups.
      const lines = stderr.split('\n').filter((line) => isNew || !line.includes("'DelegateSubgroup'"));
      return { exitCode, text: lines.join('\n') };
    };
    const unit = renderUnit({ node: process.execPath, main, variables: { A: 'a "b" %h $HOME \\' } });
    expect(await verify(unit)).toEqual({ exitCode: 0, text: '' });
    const quotedArguments = quoteCommand(['--token-file', folder]);
    const serve = renderServeUnit({
      node: process.execPath,
      main,
      quotedArguments,
      variablesFile: join(folder, 'serve.env'),
    });
    expect(await verify(serve)).toEqual({ exitCode: 0, text: '' });
    expect((await verify(unit.replace('Type=oneshot', 'Type=never'))).text).not.toBe('');
  },
);
