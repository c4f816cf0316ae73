import { setTimeout as sleep } from 'node:timers/promises';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { readMendedViews } from '../mend-runs.ts';
import { shownRunId, typedRunId } from '../run-id.ts';
import { findRunOrElsewhere, isElsewhere } from '../run-elsewhere.ts';
import { readWhatIsThere } from '../run-lookup.ts';

/** How long the run's end is waited for before the command leaves it to the worker. */
const WAIT_MS = 20_000;
const POLL_MS = 200;

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<run>', 'its id, the beginning of it, or `latest`');
  },
  async execute([text = ''], options, context) {
    const found = await findRunOrElsewhere(text, context);
    const runId = isElsewhere(found) ? found.runId : found;
    const before = isElsewhere(found) ? undefined : (await readMendedViews([runId], context))[0];
    if (before !== undefined && before.outcome !== null)
      return await say({ runId, state: before.outcome.state, wasRunning: false }, options, context);
    if (isElsewhere(found) && found.state !== 'running')
      return await say({ runId, state: found.state, wasRunning: false }, options, context);
    const { openServerLink } = await import('../../client/server-link.ts');
    const { cancelRun, describeRun } = await import('../../client/runs.ts');
    // A cancel needs the worker that holds the VMs, so the stack is started when it sleeps.
    const link = await openServerLink(context, {
      start: true,
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    if (link === null) throw new Error('the embedded stack was not started');
    const wasRunning = await link.briefly((client) => cancelRun(client, runId));
    if (before?.damage !== undefined && before.damage !== null) {
      // Its events tell nothing any more; the server knows.
      const { state } = await link.briefly((client) => describeRun(client, runId));
      return await say({ runId, state: wasRunning ? 'cancelling' : state, wasRunning }, options, context);
    }
    if (isElsewhere(found)) return await say({ runId, state: 'cancelling', wasRunning: true }, options, context);
    return await say({ runId, state: await stateInTime(runId, context), wasRunning: true }, options, context);
  },
});

async function stateInTime(runId: string, context: CliContext): Promise<string> {
  const { reader } = await context.stores();
  const until = Date.now() + WAIT_MS;
  while (Date.now() < until) {
    const view = await readWhatIsThere(reader, context.env.stateDir, runId);
    if (view.outcome !== null) return view.outcome.state;
    if (view.damage !== null) return 'cancelling';
    await sleep(POLL_MS);
  }
  const [view] = await readMendedViews([runId], context);
  return view === undefined || view.outcome === null ? 'cancelling' : view.outcome.state;
}

async function say(
  fact: { readonly runId: string; readonly state: string; readonly wasRunning: boolean },
  options: { readonly json?: boolean },
  context: CliContext,
): Promise<ExitCode> {
  if (options.json) await context.stdout.write(`${JSON.stringify(fact)}\n`);
  else if (!fact.wasRunning) await context.stdout.write(`${shownRunId(fact.runId)} had ended before: ${fact.state}\n`);
  else if (fact.state === 'cancelling')
    await context.stdout.write(
      context.advise(`${shownRunId(fact.runId)} is asked to stop. See: voidbox status ${typedRunId(fact.runId)}\n`),
    );
  else await context.stdout.write(`${shownRunId(fact.runId)} ${fact.state}\n`);
  return EXIT.success;
}
