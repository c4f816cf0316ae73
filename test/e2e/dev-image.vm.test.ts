/** An agent in a VM with `image: dev`, by the real command line. */
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { makeContext } from '../../setup/pieces/context.ts';
import { devDisk } from '../../setup/dev-disk/dev-disk.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { withFileLock } from '../../setup/file-lock.mjs';
import { Rig, until } from './rig.ts';

const script = JSON.stringify([
  { say: 'I look around.' },
  {
    run: 'git init -q r && cd r && python3 -c "print(6 * 7)" > answer && git add . && git -c user.name=a -c user.email=a@b commit -qm answer',
  },
  {
    run: "cd r && node -e \"console.log(require('fs').readFileSync('answer', 'utf8').trim())\" && rg -c 42 answer && git log --format=%s",
  },
  { result: 'committed' },
]).replaceAll("'", "''");

const SPEC = `kind: pipeline
name: dev-agent
sandbox: { image: dev, memory_mb: 512 }
pipeline:
  boxes:
    - name: work
      llm: { provider: claude }
      prompt: Commit the answer.
      skills: [{ name: style, content: Write short sentences. }]
      env: { MOCK_AGENT_SCRIPT: '${script}' }
`;

/** Includes the time to make the image, if the machine does not have it. */
const LIMIT_MS = 1_200_000;

test('an agent that is played works with the programs of the dev image', { timeout: LIMIT_MS }, async () => {
  await using rig = new Rig();
  const run = await rig.cli('run', rig.spec('spec.yaml', SPEC), '--mock-agents', '--run-id', 'dev-agent', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText, stages } = JSON.parse(run.stdout) as { outputText: string; stages: readonly object[] };
  expect(outputText).toContain('committed');
  expect(stages).toMatchObject([{ id: 'work', isolation: 'microvm' }]);
  const raw = await rig.cli('logs', 'dev-agent', '--stage', 'work', '--raw');
  expect(raw.stdout).toMatch(/42\\n1\\nanswer/);
  await rig.assertNothingLeft();
});

const WITHOUT = `kind: workflow
name: without
workflow:
  steps: [{ name: hello, run: { program: echo, args: [hello] } }]
`;

test('a run without it ends while another process makes the image, and one with it waits', async () => {
  await using rig = new Rig();
  const env = readEnvironment();
  const made = await devDisk.find(await makeContext(env, () => undefined));
  const folder = basename(dirname(made!.path));
  // All pieces of this machine except the image.
  const cache = join(rig.specDir, 'cache');
  mkdirSync(cache);
  for (const name of readdirSync(env.cacheDir))
    if (!/^(?:dev-|locks$|tmp$)/.test(name)) symlinkSync(join(env.cacheDir, name), join(cache, name));
  rig.env['VOIDBOX_CACHE_DIR'] = cache;
  const killed = await withFileLock(join(cache, 'locks', `${folder}.lock`), async () => {
    const waits = rig.start('run', rig.spec('with.yaml', SPEC), '--mock-agents', '--run-id', 'with');
    let said = '';
    waits.child.stderr!.on('data', (text: string) => (said += text));
    await until('one run to wait', 60_000, () => said.includes('waiting for another set-up to make the dev image'));
    const { code, stdout, stderr } = await rig.cli('run', rig.spec('without.yaml', WITHOUT), '--run-id', 'without');
    expect([code, stdout.includes('hello')], stderr).toEqual([0, true]);
    expect(waits.child.exitCode, said).toBeNull();
    expect(readdirSync(cache)).not.toContain(folder);
    waits.child.kill('SIGKILL');
    return waits;
  });
  await killed.done;
  await rig.assertNothingLeft();
});
