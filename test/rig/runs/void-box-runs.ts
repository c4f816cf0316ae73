/** Runs of Void-Box's API: one in each state, and one with each kind of result. */
import { FILES_OUTPUT } from '../../../domain/void-box/collect-result.ts';
import type { Stores } from '../../../store/stores.ts';
import { admit, begin, end, finish, keep, keepFiles, leaveStarted, listEvents, print } from './void-box-service.ts';

const FAILURE = { code: 'stage/exit-nonzero', message: 'exit code 3', stderrTail: '' } as const;

/** The result of the run `good`. */
export const RESULT = JSON.stringify({
  status: 'success',
  artifacts: [{ name: 'report.md', media_type: 'text/markdown' }],
});

export async function leaveRuns(stores: Stores): Promise<void> {
  const append = stores.events.append.bind(stores.events);
  const files = await keepFiles(stores, { 'input.json': '{}', 'report.md': '# report\n', 'result.json': RESULT });
  const printed = await keep(stores, 'hi\n', 'application/octet-stream');
  await leaveStarted(stores, 'good', { max_stage_retries: 5 });
  const done = end('a', {
    output: printed,
    outputs: { [FILES_OUTPUT]: files },
    usage: { vmCpuMs: 500, vmMemoryPeakMib: 64 },
    command: { exitCode: 0, stdoutBytes: 3, stderrBytes: 0 },
  });
  await append('good', [
    ...listEvents(admit('workflow', 'a'), begin('a'), print('a', 'hi\n'), done),
    finish('succeeded', { output: printed }),
  ]);
  await append('other', [
    ...listEvents(admit('workflow', 'a'), begin('a'), end('a', { output: printed })),
    finish('succeeded'),
  ]);
  await leaveStarted(stores, 'no-result');
  const empty = await keepFiles(stores, { 'input.json': '{}' });
  await append('no-result', [
    ...listEvents(
      admit('workflow', 'a'),
      begin('a'),
      end('a', { output: printed, outputs: { [FILES_OUTPUT]: empty } }),
    ),
    finish('succeeded'),
  ]);
  await leaveStarted(stores, 'malformed');
  const text = await keep(stores, 'no json', 'application/octet-stream');
  await append('malformed', [
    ...listEvents(admit('agent', 'review'), begin('review'), end('review', { output: text })),
    finish('succeeded'),
  ]);
  await append('bad', [
    ...listEvents(admit('workflow', 'a', 'b'), begin('a'), end('a', { failure: FAILURE })),
    finish('failed', { failedStage: 'a', failure: FAILURE }),
  ]);
  await append('stopped', [...listEvents(admit('workflow', 'a'), begin('a')), finish('cancelled')]);
  await append('killed', [...listEvents(admit('workflow', 'a')), finish('terminated')]);
  await leaveStarted(stores, 'open');
  await append('open', listEvents(admit('workflow', 'a', 'b'), begin('a')));
  await leaveStarted(stores, 'half');
  const half = await keep(stores, '{"status":"half"}');
  await append('half', listEvents(admit('pipeline', 'a', 'b'), begin('a'), end('a', { output: half }), begin('b')));
  await leaveStarted(stores, 'lost');
}
