/** Services in real VMs, by the real command line: an agent and a command that serve while workers and VMs come and go. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const FILE = '/workspace/report.json';

/** Counts how often it was started in a file of its mount, and reports every half second. */
const REPORTS = [
  'echo started >> /data/starts',
  'n=0',
  'while :; do n=$((n + 1)); echo "{\\"seen\\": $n}" > r.new; mv r.new report.json; sleep 0.5; done',
].join('; ');

const AGENT = `kind: agent
name: watch
llm: { provider: claude }
sandbox:
  memory_mb: 256
  mounts: [{ host: ./data, guest: /data, mode: rw }]
  env:
    MOCK_AGENT_SCRIPT: '${JSON.stringify([{ say: 'I watch.' }, { run: REPORTS.replaceAll("'", "''") }, { result: 'never' }])}'
agent:
  prompt: Watch, and do not answer.
  mode: service
  output_file: ${FILE}
`;

async function seenIn(rig: Rig, runId: string): Promise<number> {
  const { stdout, stderr } = await rig.cli('artifacts', runId, 'get', 'watch', '-o', '-');
  expect(stdout, stderr).toMatch(/^\{"seen": \d+\}\n$/);
  return (JSON.parse(stdout) as { readonly seen: number }).seen;
}

test('an agent serves on when its worker is killed, and what it had at the cancel is the result', async () => {
  const rig = theRig();
  const spec = rig.spec('spec.yaml', AGENT);
  mkdirSync(join(rig.specDir, 'data'));
  await rig.launch(spec, 'watch', '--mock-agents');
  await rig.eventOf('watch', 'stage-published');
  const before = await seenIn(rig, 'watch');
  rig.kill((await rig.liveStack()).workerPid);
  await rig.eventOf('watch', 'stage-reattached');
  await until('a later report', 60_000, async () => (await seenIn(rig, 'watch')) > before, 500);
  expect((await rig.cli('cancel', 'watch')).stdout).toContain('cancelled');
  const json = await rig.cli('result', 'watch', '--json');
  expect(json.code, json.stderr).toBe(0);
  const { state, outputText } = JSON.parse(json.stdout) as { readonly state: string; readonly outputText: string };
  expect(state).toBe('cancelled');
  expect((JSON.parse(outputText) as { readonly seen: number }).seen).toBeGreaterThan(before);
  expect(await rig.cli('result', 'watch')).toMatchObject({ code: 0, stdout: outputText });
  expect((await rig.cli('logs', 'watch')).stdout).toContain('I watch.');
  expect((await rig.cli('artifacts', 'watch')).stdout).toContain('watch.transcript.jsonl');
  expect(readFileSync(join(rig.specDir, 'data/starts'), 'utf8'), 'its mount came back, and it started once').toBe(
    'started\n',
  );
});

const COMMAND = `kind: workflow
name: beat
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: watch
      mode: service
      output_file: ${FILE}
      run:
        program: sh
        args: [-c, 'n=0; echo begun; while :; do n=$((n + 1)); echo "{\\"seen\\": $n}" > r.new; mv r.new report.json; sleep 0.5; done']
`;

test('a service whose VM is lost starts from its beginning in another one', async () => {
  const rig = theRig();
  const run = rig.start('run', rig.spec('spec.yaml', COMMAND), '--run-id', 'beat');
  await until('some reports', 120_000, async () => {
    const bodies = (await rig.events('beat').catch(() => [])).map(({ body }) => body);
    return bodies.filter(({ type }) => type === 'stage-published').length >= 3;
  });
  const before = await seenIn(rig, 'beat');
  rig.kill((await rig.keeperOf('_shared')).pid);
  await rig.eventOf('beat', 'vm-lost');
  await until('reports of the second VM', 120_000, async () => {
    const started = (await rig.events('beat')).findLastIndex(({ body }) => body.type === 'stage-started');
    const later = (await rig.events('beat')).slice(started);
    return later.some(({ body }) => body.type === 'stage-published' && body.execKey === 'watch/0/2');
  });
  expect(await seenIn(rig, 'beat')).toBeLessThan(before + 20);
  expect(await rig.output('beat', 'watch')).toBe('begun\nbegun\n');
  expect((await rig.cli('cancel', 'beat')).stdout).toContain('cancelled');
  expect((await rig.finish('beat')).outcome).toMatchObject({
    state: 'cancelled',
    output: { mediaType: 'application/json' },
  });
  const { code, stderr } = await run.done;
  expect(code, stderr).toBe(0);
});
