import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { AppError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { explainStalledRuns } from '../../runs/open-runs.ts';
import { readRepairedViews } from '../../../app/runs/repair-runs.ts';
import { toRunJson, withStageFacts } from '../../../app/json/run-json.ts';
import { describeDisk, MAKE_ROOM } from '../../render/host/disk.ts';
import { renderStatus } from '../../render/runs/status.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';
import { readStageFacts } from '../../../app/runs/stage-facts.ts';
import { findRunOrElsewhere, isElsewhere, type RunElsewhere } from '../../../app/runs/run-elsewhere.ts';
import { shorten } from '../../../domain/units/quote.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<run>', 'a run id, a unique prefix of one, or `latest`');
  },
  async execute([text = ''], options, context) {
    const found = await findRunOrElsewhere(text, context);
    if (isElsewhere(found)) return await printElsewhere(found, options, context);
    const [view] = await readRepairedViews([found], context);
    if (view === undefined) throw new AppError('usage', 'cli/usage', `there is no run \`${shorten(text)}\``);
    const { stateDir } = context.env;
    const { local } = await context.stores();
    // A run that has ended waits for nothing, and one of another machine not for the disk of this one.
    const disk =
      view.outcome === null && local !== null
        ? await (await import('../../../client/vms/disk-state.ts')).readDiskState(stateDir, view.runId)
        : null;
    const facts = await readStageFacts(view.runId, context);
    if (options.json)
      await context.stdout.write(`${JSON.stringify({ ...withStageFacts(toRunJson(view), facts), disk })}\n`);
    else {
      const { style } = context.stdout;
      const lines = renderStatus(view, {
        style,
        width: context.stdout.width(),
        nowMs: context.now().getTime(),
        advise: context.advise,
        folder: local?.folderOf(view.runId) ?? null,
        facts,
      });
      const standstill = view.state === 'running' ? await explainStalledRuns(context) : null;
      if (standstill !== null) lines.push('', style.yellow(standstill));
      const held = disk === null ? [] : describeDisk(disk, stateDir);
      if (held.length > 0)
        lines.push(
          '',
          ...held.map((line) => style.yellow(line)),
          `${style.cyan('help:')} ${context.advise(MAKE_ROOM)}`,
        );
      await context.stdout.write(`${lines.join('\n')}\n`);
    }
    return EXIT.success;
  },
});

async function printElsewhere(
  found: RunElsewhere,
  options: { readonly json?: boolean },
  context: CliContext,
): Promise<typeof EXIT.success> {
  const { runId, state, host, isPruned } = found;
  await context.stdout.write(
    options.json
      ? `${JSON.stringify({ runId, state, host, pruned: isPruned, stages: null })}\n`
      : `${formatRunId(runId)} is ${state}; ${context.advise(describePlace(found))}\n`,
  );
  return EXIT.success;
}

function describePlace({ host, isPruned, url, missingWorker }: RunElsewhere): string {
  if (isPruned) {
    const history = url === null ? '' : `. Its history: ${url}`;
    return `it was pruned from this host: its stages, logs and outputs are deleted${history}`;
  }
  if (host !== null) return `its stages and output are on host ${sanitizeLine(host)}`;
  return `no worker has taken it yet, or its host is unknown${missingWorker === null ? '' : `\n${missingWorker}`}`;
}
