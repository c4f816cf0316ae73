/** The peer of figure (a): a bare loop of no-op activities, as a Temporal application would write it. */
import { proxyActivities } from '@temporalio/workflow';

const { noop } = proxyActivities<{ noop(): Promise<void> }>({ startToCloseTimeout: '10 s' });

export async function bareLoop(steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) await noop();
}
