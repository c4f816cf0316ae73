import { setTimeout as sleep } from 'node:timers/promises';
import type { AdmissionRecord } from '../../../activities/admission/admission-record.ts';
import { refuseCommandRun } from '../../../app/runs/command-run.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { type CancelFact, renderCancel } from '../../render/runs/cancel.ts';
import { readRepairedViews } from '../../../app/runs/repair-runs.ts';
import { findRunOrElsewhere, isElsewhere } from '../../../app/runs/run-elsewhere.ts';
import { readWhatIsThere } from '../../../app/runs/run-lookup.ts';

/** How long the run's end is waited for before the command leaves it to the worker. */
const WAIT_MS = 20_000;
const POLL_MS = 200;

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<run>', 'a run id, a unique prefix of one, or `latest`');
  },
  async execute([text = ''], options, context) {
    const found = await findRunOrElsewhere(text, context);
    const runId = isElsewhere(found) ? found.runId : found;
    const before = isElsewhere(found) ? undefined : (await readRepairedViews([runId], context))[0];
    if (before !== undefined && before.outcome !== null)
      return await printCancel({ runId, state: before.outcome.state, wasRunning: false }, options, context);
    if (isElsewhere(found) && found.state !== 'running')
      return await printCancel({ runId, state: found.state, wasRunning: false }, options, context);
    let last: readonly string[] = [];
    if (!isElsewhere(found)) {
      const { records } = await context.stores();
      const admission = (await records.get(runId, 'admission').catch(() => null)) as AdmissionRecord | null | undefined;
      refuseCommandRun(runId, admission, 'cancel');
      last = admission?.plan?.stages.flatMap((stage) => (stage.finally === true ? [stage.id] : [])) ?? [];
    }
    const { openServerLink } = await import('../../../client/temporal/server-link.ts');
    const { cancelRunOrRest, describeRun } = await import('../../../client/runs/runs.ts');
    // A cancel needs the worker that holds the VMs, so the stack is started when it sleeps.
    const link = await openServerLink(context, {
      start: true,
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    if (link === null) throw new Error('the embedded stack was not started');
    const wasRunning = await link.briefly((client) => cancelRunOrRest(client, runId));
    if (before?.damage !== undefined && before.damage !== null) {
      // The events of a damaged run may lack the end, but the server knows it.
      const { state } = await link.briefly((client) => describeRun(client, runId));
      return await printCancel({ runId, state: wasRunning ? 'cancelling' : state, wasRunning }, options, context);
    }
    if (isElsewhere(found))
      return await printCancel({ runId, state: 'cancelling', wasRunning: true }, options, context);
    return await printCancel(
      { runId, state: await stateInTime(runId, context), wasRunning: true },
      options,
      context,
      last,
    );
  },
});

async function stateInTime(runId: string, context: CliContext): Promise<string> {
  const stores = await context.stores();
  const until = Date.now() + WAIT_MS;
  while (Date.now() < until) {
    const view = await readWhatIsThere(stores, runId);
    if (view.outcome !== null) return view.outcome.state;
    if (view.damage !== null) return 'cancelling';
    await sleep(POLL_MS);
  }
  const [view] = await readRepairedViews([runId], context);
  return view === undefined || view.outcome === null ? 'cancelling' : view.outcome.state;
}

async function printCancel(
  fact: CancelFact,
  options: { readonly json?: boolean },
  context: CliContext,
  last: readonly string[] = [],
): Promise<ExitCode> {
  await context.stdout.write(options.json ? `${JSON.stringify(fact)}\n` : renderCancel(fact, last, context.advise));
  return EXIT.success;
}
