/** The peer of figure (a): a bare loop of no-op activities, as a Temporal application would write it. */
import { proxyActivities } from '@temporalio/workflow';

interface BareActivities {
  noop(): Promise<void>;
}

const { noop } = proxyActivities<BareActivities>({ startToCloseTimeout: '10 s' });
const { noop: dispatchedNoop } = proxyActivities<BareActivities>({ startToCloseTimeout: '10 s', allowEagerDispatch: false });

export async function bareLoop(steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) await noop();
}

/** As for an activity whose queue is another than its workflow's: the server cannot hand it over with the workflow task's answer. */
export async function bareLoopDispatched(steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) await dispatchedNoop();
}
