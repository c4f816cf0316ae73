/** Void-Box's examples that need nothing but commands run unchanged. */
import { Buffer } from 'node:buffer';
import { copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig } from '../e2e/rig.ts';
import { busyboxRoot, writeLayout } from '../rig/vms/oci-layout.ts';

const SPECS = join(dirname(fileURLToPath(import.meta.url)), 'void-box', 'specs');

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(async () => {
  try {
    await rig.assertNothingLeft();
  } finally {
    await rig[Symbol.asyncDispose]();
  }
});

test.each([
  // Its `sandbox.mode` asks for no VM.
  ['workflow.yaml', 'HELLO FROM WORKFLOW\n', ['none', 'none']],
  ['startup_cross_check.yaml', '', ['microvm']],
  ['oci/guest-image-workflow.yaml', 'HELLO FROM GUEST IMAGE\n', ['microvm', 'microvm']],
])('%s', async (file, outputText, isolations) => {
  const { code, stdout, stderr } = await rig.cli('run', join(SPECS, file), '--json');
  expect(code, `${stdout}\n${stderr}`).toBe(0);
  const run = JSON.parse(stdout) as { stages: readonly { state: string; isolation: string | null }[] };
  expect(run).toMatchObject({ state: 'succeeded', outputText });
  expect(run.stages.map(({ state, isolation }) => ({ state, isolation }))).toEqual(
    isolations.map((isolation) => ({ state: 'succeeded', isolation })),
  );
});

test('in a checkout, `run --base-dir .` finds the skill of hackernews_agent.yaml, and the mock agent plays its agent', async () => {
  await using own = new Rig();
  cpSync(join(SPECS, '..'), join(own.specDir, 'examples'), { recursive: true });
  const skills = join(own.specDir, 'examples/hackernews/skills');
  mkdirSync(skills);
  writeFileSync(join(skills, 'hackernews-api.md'), 'Ask the API of Hacker News.\n');
  const file = 'examples/hackernews/hackernews_agent.yaml';
  const { code, stdout, stderr } = await own.cli('run', file, '--base-dir', '.', '--mock-agents', '--json');
  expect(code, `${stdout}\n${stderr}`).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    state: 'succeeded',
    stages: [{ id: 'hackernews', isolation: 'microvm' }],
  });
  await own.assertNothingLeft();
});

/** Replaces the program of the image by a few lines of shell that do what the spec asks of it. */
const OPENCLAW = `#!/bin/sh
case "$1" in
  config) echo "$3=$4" >> "$HOME/.openclaw/config" ;;
  gateway)
    trap 'echo stopped >> "$HOME/.openclaw/log"; exit 0' TERM
    echo "gateway at $3 with $(cat "$HOME/.openclaw/config")"
    while :; do sleep 0.2; done ;;
esac
`;

test('openclaw_telegram_ollama.yaml: its service serves until it is cancelled, and its folder comes back', async () => {
  await using own = new Rig({ TELEGRAM_BOT_TOKEN: '123456:token' });
  copyFileSync(join(SPECS, '../openclaw/openclaw_telegram_ollama.yaml'), join(own.specDir, 'spec.yaml'));
  mkdirSync(join(own.specDir, '.openclaw-data'));
  const layout = join(own.specDir, 'openclaw');
  const program = (name: string, text: string) =>
    ({ kind: 'file', path: `bin/${name}`, mode: 0o755, body: Buffer.from(text) }) as const;
  const root = await busyboxRoot(['sh', 'cat', 'echo', 'mkdir', 'sleep']);
  const programs = [program('node', '#!/bin/sh\necho v22.0.0\n'), program('openclaw', OPENCLAW)];
  await writeLayout(layout, { layers: [[...root, ...programs]], config: { Env: ['PATH=/bin'] } });
  await own.launch(join(own.specDir, 'spec.yaml'), 'claw', '--image', `alpine/openclaw:latest=${layout}`);
  await own.waitOutput('claw', 'gateway', 'gateway at 18789 with provider=ollama');
  expect((await own.cli('cancel', 'claw')).stdout).toContain('cancelled');
  const result = await own.cli('result', 'claw');
  expect(result).toMatchObject({ code: 0, stdout: 'gateway at 18789 with provider=ollama\n' });
  expect(readFileSync(join(own.specDir, '.openclaw-data/.openclaw/log'), 'utf8')).toBe('stopped\n');
  await own.assertNothingLeft();
});
