/** The peer of figure (a): a bare loop of no-op activities, as a Temporal application would write it. */
import {
  condition,
  defineSignal,
  defineUpdate,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
} from '@temporalio/workflow';

interface BareActivities {
  noop(): Promise<void>;
  wait(ms: number): Promise<void>;
}

const { noop } = proxyActivities<BareActivities>({ startToCloseTimeout: '10 s' });
const { noop: dispatchedNoop } = proxyActivities<BareActivities>({
  startToCloseTimeout: '10 s',
  allowEagerDispatch: false,
});

export async function bareLoop(steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) await noop();
}

/** Activities side by side, at most `width` at a time: a Temporal application's fan-out. */
export async function bareFanOut(stages: number, width: number): Promise<void> {
  let begun = 0;
  const lane = async (): Promise<void> => {
    while (begun < stages) {
      begun += 1;
      await noop();
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
}

const { wait } = proxyActivities<BareActivities>({ startToCloseTimeout: '10 s' });
const { wait: waitLong } = proxyActivities<BareActivities>({
  startToCloseTimeout: '10 min',
  allowEagerDispatch: false,
});

/** Items as a Temporal application would do them in one workflow, and one long activity beside them. */
export async function bareItems(items: number, width: number, itemMs: number, longMs: number): Promise<number> {
  let begun = 0;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (begun < items) {
      begun += 1;
      await wait(itemMs);
      done += 1;
    }
  };
  await Promise.all([waitLong(longMs), ...Array.from({ length: width }, lane)]);
  return done;
}

/** As for an activity whose queue is another than its workflow's: the server cannot hand it over with the workflow task's answer. */
export async function bareLoopDispatched(steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) await dispatchedNoop();
}

const { noop: localNoop } = proxyLocalActivities<BareActivities>({ startToCloseTimeout: '10 s' });
const bareUpdate = defineUpdate<number, [unknown]>('bare');
const bareEnd = defineSignal('end');

/** The peer of a durable session: an update that calls one local activity and answers. */
export async function bareUpdates(): Promise<void> {
  let answered = 0;
  let isOver = false;
  setHandler(bareUpdate, async () => {
    await localNoop();
    return (answered += 1);
  });
  setHandler(bareEnd, () => void (isOver = true));
  await condition(() => isOver);
}
