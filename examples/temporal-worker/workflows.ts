/** Workflows of your own. The worker bundles this file, so it exports `voidboxRun` too: that is what carries out pipelines. */
import { proxyActivities } from '@temporalio/workflow';
import { executePipeline, type Plan, runCommand } from 'voidbox/temporal/workflows';

export { voidboxItems, voidboxRun } from 'voidbox/temporal/workflows';

/** As `worker.mjs` has them. */
interface OwnActivities {
  announce(text: string): Promise<string>;
}

const { announce } = proxyActivities<OwnActivities>({ startToCloseTimeout: '10 seconds' });

/** A pipeline as a child, one command in a VM of its own, and an activity of your own. */
export async function publish(plan: Plan, headline: string): Promise<string> {
  const { runId } = await executePipeline(plan, { summary: `build for ${headline}` });
  const upper = await runCommand({
    program: 'tr',
    args: ['a-z', 'A-Z'],
    stdin: headline,
    sandbox: { memoryMib: 256 },
    timeoutMs: 60_000,
  });
  if (upper.outcome === 'failed') return await announce(`${runId} is built, but: ${upper.failure?.message}`);
  return await announce(`${upper.stdout} (${runId})`);
}
