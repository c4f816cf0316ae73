import { CliError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { readMendedViews } from '../mend-runs.ts';
import { toRunJson } from '../render/run-json.ts';
import { describeDisk, MAKE_ROOM } from '../render/disk.ts';
import { renderStatus } from '../render/status.ts';
import { shownRunId } from '../run-id.ts';
import { findRunOrElsewhere, isElsewhere } from '../run-elsewhere.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<run>', 'its id, the beginning of it, or `latest`');
  },
  async execute([text = ''], options, context) {
    const found = await findRunOrElsewhere(text, context);
    if (isElsewhere(found)) return await printElsewhere(found.runId, found.state, found.host, options, context);
    const [view] = await readMendedViews([found], context);
    if (view === undefined) throw new CliError(EXIT.usage, 'cli/usage', `there is no run \`${text}\``);
    const { stateDir } = context.env;
    // A run that has ended waits for nothing.
    const disk =
      view.outcome === null
        ? await (await import('../../client/disk-state.ts')).readDiskState(stateDir, view.runId)
        : null;
    if (options.json) await context.stdout.write(`${JSON.stringify({ ...toRunJson(view), disk })}\n`);
    else {
      const { style } = context.stdout;
      const lines = renderStatus(view, {
        style,
        width: context.stdout.width(),
        nowMs: context.now().getTime(),
        advise: context.advise,
      });
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
  runId: string,
  state: string,
  host: string | null,
  options: { readonly json?: boolean },
  context: CliContext,
): Promise<typeof EXIT.success> {
  if (options.json) await context.stdout.write(`${JSON.stringify({ runId, state, host, stages: null })}\n`);
  else
    await context.stdout.write(
      `${shownRunId(runId)} is ${state}${host === null ? '; no worker has taken it yet, or its host is unknown' : `; its stages and output are on host ${host}`}\n`,
    );
  return EXIT.success;
}
