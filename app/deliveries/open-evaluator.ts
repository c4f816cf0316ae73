import type { EvaluateDelivery } from './evaluate-delivery.ts';

/** Evaluates in a thread of this process. The thread starts with the first evaluation, and ends when it is idle. */
export function openEvaluator(): EvaluateDelivery {
  let opened: Promise<EvaluateDelivery> | null = null;
  return async (...asked) => {
    opened ??= openThreads();
    return await (
      await opened
    )(...asked);
  };
}

/** Most processes evaluate nothing, and load none of it. */
async function openThreads(): Promise<EvaluateDelivery> {
  const [{ createConditionThreads }, { createEvaluateDelivery }] = await Promise.all([
    import('../../conditions/threads.ts'),
    import('./evaluate-delivery.ts'),
  ]);
  return createEvaluateDelivery(createConditionThreads());
}
