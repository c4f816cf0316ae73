import { MockActivityEnvironment } from '@temporalio/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withHeartbeat } from './heartbeat.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('heartbeats contain the phase of the attempt and its duration', async () => {
  const environment = new MockActivityEnvironment();
  const beats: unknown[] = [];
  environment.on('heartbeat', (details: unknown) => void beats.push(details));
  await environment.run(() =>
    withHeartbeat(async ({ phase }) => {
      phase('starting the VM');
      await vi.advanceTimersByTimeAsync(2_000);
      phase('starting the VM');
      await vi.advanceTimersByTimeAsync(1_000);
      phase('running');
      await vi.advanceTimersByTimeAsync(1_000);
    }),
  );
  expect(beats).toEqual([
    { phase: 'starting the VM', phaseSecs: 1 },
    { phase: 'starting the VM', phaseSecs: 2 },
    { phase: 'starting the VM', phaseSecs: 3 },
    { phase: 'running', phaseSecs: 1 },
  ]);
});
