/** Agents that attack the worker's readers: by their stream, and by the files that are saved of them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { STREAM_LIMITS } from '../../agents/stream.ts';
import { Rig } from './rig.ts';

const MIB = 1024 * 1024;
/** Includes the memory that the worker needs for any stage. */
const MOST_WORKER_MIB = 600;

/** Each agent is in a VM of its own. */
const hostile = (
  agents: readonly { readonly name: string; readonly steps: readonly object[] }[],
): string => `api_version: v1
kind: workflow
name: hostile
llm: { provider: codex }
sandbox: { memory_mb: 256 }
workflow:
  output_step: ${agents[0]!.name}
  steps:
${agents
  .map(
    ({ name, steps }) => `    - name: ${name}
      prompt: Work.
      sandbox: {}
      env: { MOCK_AGENT_SCRIPT: '${JSON.stringify(steps).replaceAll("'", "''")}' }
`,
  )
  .join('')}`;

/** Returns the largest memory of the worker since its start. */
async function peakMibOfWorker(rig: Rig): Promise<number> {
  const { workerPid } = await rig.liveStack();
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${workerPid}/status`, 'utf8'))![1]) / 1024;
}

test('a line of 100 MiB, one that is nested deep, and 50,000 empty ones: the answer behind them counts', async () => {
  const longestBytes = 100 * MIB;
  expect(longestBytes).toBeGreaterThan(STREAM_LIMITS.lineBytes);
  await using rig = new Rig();
  const steps = [
    { say: 'before' },
    { print: { text: 'x'.repeat(1024), times: longestBytes / 1024 } },
    { print: { text: '{"type":', times: 100_000 } },
    { print: { text: '\n', times: 50_000 } },
    { say: 'behind' },
    { result: 'done' },
  ];
  await rig.launch(rig.spec('spec.yaml', hostile([{ name: 'work', steps }])), 'stream', '--mock-agents');
  const { outcome } = await rig.finish('stream', 250_000);
  expect(outcome.state, JSON.stringify(outcome)).toBe('succeeded');
  expect(outcome.output?.sizeBytes).toBe('done'.length);
  expect(await peakMibOfWorker(rig), 'MiB').toBeLessThan(MOST_WORKER_MIB);
  const events = (await rig.events('stream')).map(({ body }) => body);
  const texts = events.flatMap((body) => (body.type === 'agent-text' ? [body.text] : []));
  expect(texts).toEqual(['before', 'behind', 'done']);
  const fetched = await rig.cli('artifacts', 'stream', 'get', 'work.transcript.jsonl');
  expect(fetched.code, fetched.stderr).toBe(0);
  const transcript = readFileSync(join(rig.specDir, 'work.transcript.jsonl'));
  expect(transcript.indexOf('x'.repeat(1024))).toBeGreaterThan(0);
  expect(transcript.length).toBeGreaterThan(longestBytes);
  await rig.assertNothingLeft();
});

const UNSAVABLE = [
  { name: 'pipe', command: 'mkfifo pipe', said: 'pipe' },
  { name: 'link', command: 'ln -s /dev/zero link', said: 'link' },
  { name: 'sparse', command: 'truncate -s 10G sparse', said: 'more than' },
] as const;

test('sessions with a pipe, a link to a device or 10 GiB of nothing are not saved, and the log reports each of them once', async () => {
  await using rig = new Rig();
  // Time for the save that the end of the call begins.
  const attack = (command: string): readonly object[] => [
    { run: `cd ~/.codex/sessions && ${command}` },
    { sleep_ms: 4_000 },
    { result: 'done' },
  ];
  const spec = hostile(UNSAVABLE.map(({ name, command }) => ({ name, steps: attack(command) })));
  await rig.launch(rig.spec('spec.yaml', spec), 'files', '--mock-agents');
  const { outcome } = await rig.finish('files');
  expect(outcome.state, JSON.stringify(outcome)).toBe('succeeded');
  const events = (await rig.events('files')).map(({ body }) => body);
  expect(events.filter(({ type }) => type === 'stage-progress')).toEqual([]);
  const notices = events.flatMap((body) => (body.type === 'notice' ? [body.message] : []));
  const notSaved = notices.filter((message) => message.includes('has done is not saved: '));
  expect(notSaved, notices.join('\n')).toHaveLength(UNSAVABLE.length);
  for (const { name, said } of UNSAVABLE)
    expect(notSaved.find((message) => message.includes(`stage ${name} `))).toContain(said);
  expect(await peakMibOfWorker(rig), 'MiB').toBeLessThan(MOST_WORKER_MIB);
  await rig.assertNothingLeft();
});
