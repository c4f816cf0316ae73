/** Void-Box's API with the real stack: a client of Void-Box starts a run in a VM, reads its result, and cancels another. */
import { request } from 'node:http';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunState } from '../../app/void-box/run-state.ts';
import type { VoidBoxEvent } from '../../domain/void-box/event.ts';
import { isAlive, type Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const RESULT = '{"status":"success","artifacts":[{"name":"report.md","media_type":"text/markdown"}]}';

const specOf = (script: string): string => `api_version: v1
kind: workflow
name: of-void-box
sandbox: { memory_mb: 256, network: false }
workflow:
  steps:
    - name: produce
      run: { program: sh, args: [-c, ${JSON.stringify(script)}] }
  output_step: produce
`;

/** Sends a request as a client of Void-Box does: without a type of its body. */
async function call<T>(rig: Rig, method: string, path: string, body?: object): Promise<T> {
  const text = await new Promise<string>((resolve, reject) => {
    const sent = request({ socketPath: join(rig.stateDir, 'api.sock'), path, method, agent: false });
    sent.on('error', reject).on('response', (response) => {
      let received = '';
      response.setEncoding('utf8').on('data', (part: string) => (received += part));
      response.on('error', reject).on('end', () => resolve(received));
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
  try {
    return JSON.parse(text) as T;
  } catch {
    return text as T;
  }
}

async function readWhen(rig: Rig, runId: string, isThere: (run: RunState) => boolean): Promise<RunState> {
  let run = await call<RunState>(rig, 'GET', `/v1/runs/${runId}`);
  await until(`the run ${runId}`, 120_000, async () => {
    run = await call<RunState>(rig, 'GET', `/v1/runs/${runId}`);
    return isThere(run);
  });
  return run;
}

test('a client of Void-Box starts a run, reads its result, and cancels another one', async () => {
  const rig = theRig();
  expect((await rig.cli('up')).code).toBe(0);
  const start = async (runId: string, script: string): Promise<unknown> => {
    const file = join(rig.specDir, `${runId}.yaml`);
    writeFileSync(file, specOf(script));
    return await call(rig, 'POST', '/v1/runs', { file, run_id: runId, policy: { stage_timeout_secs: 500 } });
  };

  // The result of a step, with an artifact that it names.
  const script = `echo working; printf '%s' '${RESULT}' > /workspace/result.json; echo '# report' > /workspace/report.md`;
  expect(await start('good', script)).toEqual({ run_id: 'good', attempt_id: 1, state: 'running' });
  const good = await readWhen(rig, 'good', ({ finished_at: at }) => at !== null);
  expect(good).toMatchObject({
    status: 'succeeded',
    report: { output: 'working\n' },
    policy: { stage_timeout_secs: 500 },
  });
  expect(good.artifact_publication.manifest.map(({ name }) => name)).toEqual(['result.json', 'report.md']);
  expect(await call(rig, 'GET', '/v1/runs/good/stages/produce/output-file')).toEqual(JSON.parse(RESULT));
  expect(await call(rig, 'GET', '/v1/runs/good/stages/main/artifacts/report.md')).toBe('# report\n');
  const events = await call<readonly VoidBoxEvent[]>(rig, 'GET', '/v1/runs/good/events?api_version=v2');
  expect(events.map(({ event_type: type }) => type)).toEqual([
    'RunStarted',
    'SpecLoaded',
    'WorkflowPlanned',
    'StageQueued',
    'EnvironmentProvisioned',
    'StageStarted',
    'LogChunk',
    'LogClosed',
    'StageSucceeded',
    'RunCompleted',
  ]);
  const { samples } = await call<{ samples: unknown[] }>(rig, 'GET', '/v1/runs/good/telemetry');
  expect(samples).toEqual([
    expect.objectContaining({
      stage_name: 'produce',
      guest: expect.objectContaining({ cpu_percent: expect.any(Number), memory_total_bytes: 256 * 1024 ** 2 }),
    }),
  ]);

  // A step without a result fails here, and succeeds for the command line.
  await start('bare', 'echo done');
  const bare = await readWhen(rig, 'bare', ({ finished_at: at }) => at !== null);
  expect(bare).toMatchObject({ status: 'failed', error: "stage 'produce' completed without result.json" });
  expect((await rig.cli('result', 'bare')).stdout).toBe('done\n');

  // A cancel ends the process of the guest, and a crash of the service loses no run.
  await start('long', 'echo begun; sleep 600');
  await readWhen(rig, 'long', (run) => run.active_stage_count === 1);
  const service = rig.processes().find(({ command }) => command.includes('dist/server/main.js'))!;
  rig.kill(service.pid);
  // A connection to a service that dies is reset.
  await until('another service', 30_000, async () => {
    const answer = await call<object>(rig, 'GET', '/v1/health').catch(() => null);
    return answer !== null && !isAlive(service.pid);
  });
  expect(await call(rig, 'GET', '/v1/runs/long')).toMatchObject({ status: 'running' });
  const cancelled = await call(rig, 'POST', '/v1/runs/long/cancel', { reason: 'not needed' });
  expect(cancelled).toEqual({ run_id: 'long', state: 'cancelled', terminal_event_id: expect.any(String) });
  expect(await call(rig, 'POST', '/v1/runs/long/cancel', {})).toEqual(cancelled);
  await until('the end of the VM', 30_000, () => rig.keepers().length === 0);
  expect(await call(rig, 'GET', '/v1/runs/long')).toMatchObject({ terminal_reason: 'not needed' });
});
