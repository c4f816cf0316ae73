/** The contract with clients of Void-Box: a row for each status, the shapes of runs, and both versions of events. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type RunState, STATUS_OF_PLACE, STATUS_OF_STAGE, STATUS_OF_STATE } from '../../app/void-box/run-state.ts';
import { EVENT_TYPES, type VoidBoxEvent } from '../../domain/void-box/event.ts';
import { leaveRuns, RESULT } from '../../test/rig/runs/void-box-runs.ts';
import { leaveStarted, openVoidBoxService, type VoidBoxService } from '../../test/rig/runs/void-box-service.ts';

let service: VoidBoxService;

beforeAll(async () => {
  service = openVoidBoxService();
  await leaveRuns(service.stores);
});
afterAll(() => service.close());

/** Each status of Void-Box, by a run that has it. */
const STATES: readonly (readonly [string, string, Partial<RunState>])[] = [
  ['good', 'succeeded', { error: null, exit_code: 0, policy: expect.objectContaining({ max_stage_retries: 5 }) }],
  ['other', 'succeeded', { file: '', artifact_publication: expect.objectContaining({ status: 'not_started' }) }],
  [
    'no-result',
    'failed',
    { error: "stage 'a' completed without result.json", terminal_reason: 'structured output missing' },
  ],
  ['malformed', 'failed', { error: "result.json for stage 'review' is not valid JSON" }],
  ['bad', 'failed', { error: 'exit code 3', exit_code: 3, terminal_reason: 'stage/exit-nonzero' }],
  ['killed', 'failed', { terminal_reason: 'terminated' }],
  ['stopped', 'cancelled', { terminal_reason: 'run cancelled', report: null }],
  ['open', 'running', { active_stage_count: 1, terminal_event_id: null, finished_at: null }],
  ['lost', 'failed', { terminal_reason: 'not_started' }],
];

describe('states', () => {
  test.each(STATES)('the run %s is %s', async (runId, status, expected) => {
    expect(await service.get(`/v1/runs/${runId}`)).toMatchObject({ id: runId, status, ...expected });
  });

  test('pending and starting: a run on its way, and a run that no worker has admitted', async () => {
    const none = openVoidBoxService({ server: 'none' });
    await leaveStarted(none.stores, 'r');
    expect(await none.get('/v1/runs/r')).toMatchObject({ status: 'pending' });
    none.close();
    await leaveStarted(service.stores, 'started');
    service.started.push({ workflowId: 'started', args: [{} as never] });
    expect(await service.get('/v1/runs/started')).toMatchObject({ status: 'starting', error: null });
  });

  test('an open run is read without the outputs of its stages, and an ended run opens its files once', async () => {
    const open = vi.spyOn(service.stores.artifacts, 'open');
    const countOpened = async (runId: string): Promise<number> => {
      open.mockClear();
      await service.get(`/v1/runs/${runId}`);
      return open.mock.calls.length;
    };
    try {
      expect(await countOpened('half')).toBe(0);
      await service.get('/v1/runs/good');
      // The text of the output of the run.
      expect(await countOpened('good')).toBe(1);
    } finally {
      open.mockRestore();
    }
    expect(await service.get('/v1/runs/half/stages/a/output-file')).toEqual({ status: 'half' });
  });

  test('each status of Void-Box has a row, and each state of a stage a status', () => {
    const statuses = new Set([...Object.values(STATUS_OF_STATE), ...Object.values(STATUS_OF_PLACE)]);
    expect([...statuses].toSorted()).toEqual(['cancelled', 'failed', 'pending', 'running', 'starting', 'succeeded']);
    expect([...new Set(Object.values(STATUS_OF_STAGE))].toSorted()).toEqual([
      'failed',
      'queued',
      'running',
      'skipped',
      'succeeded',
    ]);
  });

  test('a run has the fields of Void-Box, and its result in the manifest', async () => {
    const run = await service.get<RunState>('/v1/runs/good');
    expect(run).toEqual({
      id: 'good',
      status: 'succeeded',
      file: '/specs/shop.yaml',
      report: {
        name: 'shop',
        kind: 'workflow',
        success: true,
        output: 'hi\n',
        stages: 1,
        total_cost_usd: 0,
        input_tokens: 0,
        output_tokens: 0,
      },
      error: null,
      events: expect.any(Array),
      attempt_id: 1,
      started_at: '1970-01-01T00:00:00.900Z',
      updated_at: '1970-01-01T00:00:05.000Z',
      terminal_reason: null,
      exit_code: 0,
      active_stage_count: 0,
      active_microvm_count: 0,
      policy: {
        max_parallel_microvms_per_run: 4,
        max_stage_retries: 5,
        stage_timeout_secs: 3_600,
        cancel_grace_period_secs: 30,
      },
      terminal_event_id: run.events.at(-1)?.event_id,
      finished_at: '1970-01-01T00:00:05.000Z',
      stage_states: {
        a: { status: 'succeeded', started_at: '1970-01-01T00:00:01.100Z', completed_at: '1970-01-01T00:00:01.101Z' },
      },
      artifact_publication: {
        status: 'published',
        published_at: '1970-01-01T00:00:05.000Z',
        manifest: [
          {
            name: 'result.json',
            stage: 'a',
            media_type: 'application/json',
            size_bytes: RESULT.length,
            retrieval_path: '/v1/runs/good/stages/a/output-file',
          },
          {
            name: 'report.md',
            stage: 'a',
            media_type: 'text/markdown',
            size_bytes: 9,
            retrieval_path: '/v1/runs/good/stages/a/artifacts/report.md',
          },
        ],
      },
      output_ready: false,
    });
  });

  test('stages have the fields of Void-Box', async () => {
    const { stages } = await service.get<{ stages: unknown[] }>('/v1/runs/bad/stages');
    expect(stages).toEqual([
      {
        stage_name: 'a',
        box_name: null,
        group_id: 'g0',
        depends_on: [],
        status: 'failed',
        stage_attempt: 1,
        started_at: '1970-01-01T00:00:01.100Z',
        completed_at: '1970-01-01T00:00:01.101Z',
        duration_ms: 1,
        exit_code: 3,
      },
      expect.objectContaining({ stage_name: 'b', group_id: 'g1', depends_on: ['a'], status: 'skipped' }),
    ]);
  });

  test('a list has the runs of a state, without their events', async () => {
    const list = async (query: string): Promise<readonly RunState[]> =>
      (await service.get<{ runs: readonly RunState[] }>(`/v1/runs${query}`)).runs;
    const terminal = await list('?state=terminal');
    expect(terminal.map(({ id }) => id)).toContain('no-result');
    expect(terminal.find(({ id }) => id === 'no-result')).toMatchObject({ status: 'failed', events: [] });
    expect(terminal.every(({ status }) => ['succeeded', 'failed', 'cancelled'].includes(status))).toBe(true);
    const active = await list('?state=active');
    expect(active.map(({ id }) => id).toSorted()).toEqual(['half', 'open']);
    expect((await list('')).length).toBe(terminal.length + active.length);
  });
});

describe('events', () => {
  const list = async (query = ''): Promise<readonly VoidBoxEvent[]> =>
    await service.get<readonly VoidBoxEvent[]>(`/v1/runs/good/events${query}`);

  test('both versions have each event, and `seq` increases', async () => {
    const first = await list();
    expect(first.map(({ event_type: type }) => type)).toEqual([
      'run.started',
      'run.spec.loaded',
      'workflow.planned',
      'stage.queued',
      'stage.started',
      'log.chunk',
      'log.closed',
      'stage.completed',
      'run.finished',
    ]);
    expect(first.every(({ seq }, index) => index === 0 || seq > first[index - 1]!.seq)).toBe(true);
    const second = await list('?api_version=v2');
    expect(second.map(({ event_type: type }) => type)).toEqual(
      first.map(({ event_type: type }) => EVENT_TYPES[type as keyof typeof EVENT_TYPES]),
    );
    const run = await service.get<RunState>('/v1/runs/good?api_version=v2');
    expect(run.events[0]?.event_type).toBe('RunStarted');
  });

  test('a reader resumes after any event', async () => {
    const all = await list();
    for (const [index, { event_id: id }] of all.entries())
      expect(await list(`?from_event_id=${id}`)).toEqual(all.slice(index + 1));
  });

  test.each(['nonexistent-id', '', '00000000-0000-7000-8000-000000000000'])(
    'a reader with the unknown id %j gets all',
    async (id) => {
      expect(await list(`?from_event_id=${id}`)).toEqual(await list());
    },
  );

  test('a sample has the gauges that the host measures', async () => {
    const { samples } = await service.get<{ samples: unknown[] }>('/v1/runs/good/telemetry');
    expect(samples).toEqual([
      {
        seq: 4,
        timestamp_ms: 1_300,
        timestamp: '1970-01-01T00:00:01.300Z',
        stage_name: 'a',
        guest: { memory_used_bytes: 64 * 1024 * 1024, net_rx_bytes: 0, net_tx_bytes: 0 },
      },
    ]);
    expect(await service.get('/v1/runs/good/telemetry?from_seq=5')).toMatchObject({ next_seq: 5, samples: [] });
    expect(await service.get('/v1/runs/good/telemetry?stage_name=b')).toMatchObject({ samples: [] });
  });
});
