/**
 * Boots of VMs as a user finds them in a run's event history, on a real Temporal server. VMs are mocks that pass as
 * real VMs.
 */
import { describe, expect, test } from 'vitest';
import type { WorkflowHandle } from '@temporalio/client';
import { startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import { itemsWorkflowId } from '../../workflows/messages.ts';

const started = new Map<string, number>();
const programs: Record<string, MockProgram> = {
  /** `flaky KEY`: fails the first time. */
  flaky: async ({ args: [key = ''] }) => {
    const call = (started.get(key) ?? 0) + 1;
    started.set(key, call);
    return call === 1 ? 3 : 0;
  },
};
const BOOT_MS = 30;
const backend = { ...createMockBackend({ programs, bootMs: BOOT_MS }), name: 'qemu' as const };
const runs = useTestRuns(backend, {
  recorded: ['boots', 'boots-retried', 'boots-items', 'boots-parts'],
  windows: () => Promise.all(['boots-items', 'boots-parts'].map(windowOf)),
});

async function windowOf(runId: string): Promise<string> {
  const { runId: executionId } = await runs.client.workflow.getHandle(runId).describe();
  return itemsWorkflowId(executionId, 'each', 0);
}

interface Seen {
  /** Summaries of the markers, in the order of history. */
  readonly markers: readonly string[];
  /** Returns the number of markers in workflow tasks that contain no other command of the run's workflow. */
  readonly taskOnlyForMarkers: number;
  readonly events: number;
  readonly types: readonly string[];
}

async function seenIn(handle: WorkflowHandle): Promise<Seen> {
  const events = (await handle.fetchHistory()).events ?? [];
  const marked = events.filter(({ markerRecordedEventAttributes: marker }) => marker);
  const taskOf = (marker: (typeof events)[number]): string =>
    String(marker.markerRecordedEventAttributes!.workflowTaskCompletedEventId);
  const tasksOfCommands = new Set(
    events.flatMap(
      ({ activityTaskScheduledEventAttributes: activity, workflowExecutionCompletedEventAttributes: end }) =>
        activity || end ? [String((activity ?? end)!.workflowTaskCompletedEventId)] : [],
    ),
  );
  return {
    markers: marked.map(
      ({ userMetadata }) => JSON.parse(Buffer.from(userMetadata!.summary!.data!).toString()) as string,
    ),
    taskOnlyForMarkers: marked.filter((marker) => !tasksOfCommands.has(taskOf(marker))).length,
    events: events.length,
    types: marked.map(({ markerRecordedEventAttributes: marker }) => marker!.markerName!),
  };
}

async function run(runId: string, spec: string): Promise<Seen> {
  await startRun(runs.client, { runId, request: { spec }, summary: runId });
  expect(await runs.outcomeOf(runId)).toMatchObject({ state: 'succeeded' });
  return seenIn(runs.client.workflow.getHandle(runId));
}

const chain = (name: string, more = ''): string => `
kind: pipeline
name: ${name}
pipeline:
  boxes:
    - { name: compile, run: { program: 'true' } }
    - { name: check, run: { program: flaky, args: [${name}] }${more} }
  stages: [{ type: box, name: compile }, { type: box, name: check }]
`;

const BOOTED = `booted in ${BOOT_MS} ms`;

describe('the history of a run', () => {
  test('has a marker for the boot of each stage, whose summary names the stage and its time, in the workflow task of its result', async () => {
    started.set('boots', 1);
    const seen = await run('boots', chain('boots'));
    expect(seen.markers).toEqual([`VM of compile ${BOOTED}`, `VM of check ${BOOTED}`]);
    expect(seen.types).toEqual(['core_local_activity', 'core_local_activity']);
    expect(seen.taskOnlyForMarkers).toBe(0);
  });

  test('has one for each attempt, because each has a VM of its own', async () => {
    const retry = ', retry: { max_attempts: 2, backoff_secs: 1 }';
    const { markers } = await run('boots-retried', chain('retried', retry));
    expect(markers).toEqual([`VM of compile ${BOOTED}`, `VM of check ${BOOTED}`, `VM of check (attempt 2) ${BOOTED}`]);
  });

  test('has one for a VM that several stages share', async () => {
    const spec = `
kind: workflow
name: shared
workflow:
  steps:
    - { name: one, run: { program: 'true' } }
    - { name: two, run: { program: 'true' }, depends_on: [one] }
    - { name: three, run: { program: 'true' }, depends_on: [two] }
`;
    expect((await run('boots-shared', spec)).markers).toEqual([`VM of one and 2 more ${BOOTED}`]);
  });

  test('has no marker in a run that was admitted without markers, and one event less for each boot', async () => {
    started.set('without', 1);
    started.set('with', 1);
    const recorded = await run('boots-with', chain('with'));
    await runs.stopWorker();
    await runs.startWorker(({ admit }) => ({ admit: (request) => admit({ ...request, recordsBoots: false }) }));
    const plain = await run('boots-without', chain('without'));
    await runs.stopWorker();
    await runs.startWorker();
    expect(plain.markers).toEqual([]);
    expect(recorded.events - plain.events).toBe(2);
  });
});

describe('the history of a window', () => {
  const items = (name: string, work: string, parts = ''): string => `
kind: workflow
name: ${name}
workflow:
  output_step: each
  steps:
    - { name: each, for_each: [a, b, c], max_parallel: 2, ${work} }
${parts}`;
  const sorted = async (runId: string): Promise<readonly string[]> => {
    const { markers } = await seenIn(runs.client.workflow.getHandle(await windowOf(runId)));
    return [...markers].sort();
  };

  test('has a marker for the boot of each item, also of the last', async () => {
    const seen = await run('boots-items', items('items', `run: { program: 'true' }`));
    expect(seen.markers).toEqual([]);
    const each = [0, 1, 2].map((item) => `VM of each[${item}] ${BOOTED}`);
    expect(await sorted('boots-items')).toEqual(each);
  });

  test('has one for the VM that stages of an item share', async () => {
    const part = `
parts:
  both:
    kind: workflow
    name: both
    workflow:
      output_step: two
      steps:
        - { name: one, run: { program: 'true' } }
        - { name: two, run: { program: 'true' }, depends_on: [one] }
`;
    await run('boots-parts', items('parts', 'uses: both', part));
    const each = [0, 1, 2].map((item) => `VM of each[${item}] ${BOOTED}`);
    expect(await sorted('boots-parts')).toEqual(each);
  });
});
