import { formatBytes } from '../../../domain/units/bytes.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { AppError, createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { readRepairedViews } from '../../../app/runs/repair-runs.ts';
import type { RunView } from '../../../store/run-view.ts';
import { resultText } from '../../../app/runs/result-text.ts';
import { printResult, saveResult } from '../../runs/print-result.ts';
import { mockAgentsText } from '../../render/runs/agent-usage.ts';
import { renderMockedCount } from '../../render/runs/stages.ts';
import { renderRunEnd } from '../../render/runs/run-end.ts';
import { toRunJson } from '../../../app/json/run-json.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { renderCommand, quoteStageName } from '../../../app/runs/run-id.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';
import { hasEndedAsService } from '../../../app/runs/service-end.ts';

interface Options {
  readonly output?: string;
  readonly json?: boolean;
}

/** Suggests the next command for a run that is still running. A service publishes its output before it ends. */
function suggestNextCommand(view: RunView | undefined, runId: string): string {
  const serving = view?.stages.find((stage) => stage.published !== undefined && stage.state === 'running');
  return serving === undefined
    ? `Wait for it: voidbox logs -f ${quoteRunId(runId)}`
    : `Read what its service has published: ${renderCommand('artifacts', runId, { names: `get ${quoteStageName(serving.id)}`, options: '-o -' })}`;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .option('-o, --output <file>', 'write it to a file instead of standard output');
  },
  async execute([text = ''], options, context) {
    const runId = await findRunHere('result', text, context);
    const [view] = await readRepairedViews([runId], context);
    if (view !== undefined && view.damage !== null && view.outcome === null)
      throw new CodedError('store/damaged', view.damage);
    if (view === undefined || view.outcome === null)
      throw createUsageError(`run ${runId} has not ended yet`, suggestNextCommand(view, runId));
    if (view.damage !== null)
      await context.stderr.write(`${context.stderr.style.yellow('warning:')} ${sanitizeLine(view.damage)}\n`);
    const stores = await context.stores();
    const { artifacts } = stores;
    const isServiceEnd = await hasEndedAsService(view, stores);
    const output = view.outcome.output;
    if (options.output !== undefined && output !== null) await saveResult(output, artifacts, options.output, context);
    if (options.json) {
      const outputText = output === null ? null : await resultText(output, artifacts);
      await context.stdout.write(`${JSON.stringify({ ...toRunJson(view), outputText })}\n`);
      return view.outcome.state === 'succeeded' || isServiceEnd ? EXIT.success : EXIT.runFailed;
    }
    if (view.outcome.state !== 'succeeded') {
      await context.stderr.write(
        `${renderRunEnd(view, { style: context.stderr.style, nowMs: context.now().getTime(), advise: context.advise, folder: stores.local?.folderOf(view.runId) ?? null }).join('\n')}\n`,
      );
      // That of a service, which ends in no other way.
      if (view.outcome.state === 'cancelled' && output !== null && options.output === undefined)
        await printResult(
          output,
          artifacts,
          context,
          context.advise(renderCommand('result', runId, { options: '-o FILE' })),
        );
      return isServiceEnd ? EXIT.success : EXIT.runFailed;
    }
    if (output === null)
      throw new AppError('environment', 'cli/no-result', `run ${runId} succeeded, but its result is not in the store`);
    if (view.mockAgents.length > 0)
      await context.stderr.write(
        `${context.stderr.style.yellow('warning:')} the mock agent played: ${mockAgentsText(view)}\n`,
      );
    if (view.mocked.length > 0)
      await context.stderr.write(
        `${context.stderr.style.yellow('warning:')} mocked, without their work: ${renderMockedCount(view)}\n`,
      );
    if (options.output !== undefined)
      await context.stderr.write(`${formatBytes(output.sizeBytes)} to ${options.output}\n`);
    else
      await printResult(
        output,
        artifacts,
        context,
        context.advise(renderCommand('result', runId, { options: '-o FILE' })),
      );
    return EXIT.success;
  },
});
