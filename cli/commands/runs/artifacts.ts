import { resolve } from 'node:path';
import type { ArtifactStore } from '../../../activities/ports/artifacts.ts';
import { CodedError, isCodedError } from '../../../domain/errors/coded-error.ts';
import { outputNamesOf } from '../../../domain/plan/workspace.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { StageOutput } from '../../../store/run-outputs.ts';
import { streamTar } from '../../../tar/stream.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { findOutput, formatOutputName } from '../../runs/output-name.ts';
import { printBytes } from '../../runs/print-result.ts';
import { renderTable } from '../../render/text/table.ts';
import {
  isDamage,
  readKind,
  listArtifacts,
  listShownOutputs,
  type OutputKind,
  readRunOutputs,
  type RunOutputs,
} from '../../../app/runs/artifacts.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { formatRunId, renderCommand } from '../../../app/runs/run-id.ts';
import { saveFile, type Unpacked, unpackTar } from '../../../app/runs/unpack.ts';

interface Options {
  readonly output?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('[get]', 'the word `get`, to fetch an output')
      .argument(
        '[name]',
        'an output as the list names it (`tables`, `build.tables`), a stage for its own output, or an item (`fixes[1].work`)',
      )
      .option(
        '-o, --output <folder>',
        'the folder to write to (default: the current folder for a file, a new folder of its name for a folder); - prints the bytes of a file',
      )
      .option('--force', 'replace existing files and folders of the same name');
  },
  async execute([text = '', verb, name], options, context) {
    checkUsage(text, verb, name, options);
    const runId = await findRunHere('artifacts', text, context);
    if (name === undefined && options.json === true) {
      await context.stdout.write(`${JSON.stringify(await listArtifacts(runId, context))}\n`);
      return EXIT.success;
    }
    const found = await readRunOutputs(runId, context);
    if (name === undefined) return await list(found, context);
    return await get(name, found, options, context).catch((error: unknown) => {
      throw isDamage(error) && !isCodedError(error)
        ? new CodedError(
            'store/damaged',
            `the artifact of ${sanitizeLine(name)} is not a complete tar: ${error.message}`,
          )
        : error;
    });
  },
});

function checkUsage(run: string, verb: string | undefined, name: string | undefined, options: Options): void {
  if (verb === undefined) {
    if (options.output !== undefined || options.force)
      throw createUsageError(
        '-o and --force need `get`',
        `Fetch one: voidbox artifacts -o FOLDER ${quoteRunId(run)} get NAME`,
      );
    return;
  }
  if (verb !== 'get')
    throw createUsageError(
      `\`${sanitizeLine(verb)}\` is not \`get\``,
      `Fetch one: voidbox artifacts ${quoteRunId(run)} get NAME`,
    );
  if (name === undefined)
    throw createUsageError(
      'the name of the output is missing',
      `Fetch one: voidbox artifacts ${quoteRunId(run)} get NAME`,
    );
  if (options.output === '-' && options.json)
    throw createUsageError('-o - and --json cannot be combined', 'Write to a folder: -o FOLDER');
}

async function list(found: RunOutputs, context: CliContext): Promise<ExitCode> {
  const { view } = found;
  const rows: { readonly output: StageOutput; readonly kind: OutputKind }[] = [];
  const listedOutputs = listShownOutputs(found);
  for (const output of listedOutputs.slice(0, MOST_ROWS)) rows.push({ output, kind: await readKind(output, found) });
  if (rows.length === 0) {
    const open = view.outcome === null ? ' yet' : '';
    await context.stderr.write(`run ${formatRunId(view.runId)} (${view.state}) has no outputs${open}\n`);
    return EXIT.success;
  }
  const cells = rows.map(({ output: { label, name, ref, isPartial }, kind }) => [
    formatOutputName({ label, name }),
    `${name === null && kind === 'file' ? 'output' : kind}${isPartial === true ? ', partial' : ''}`,
    formatBytes(ref.sizeBytes),
    ref.sha256,
  ]);
  const { style } = context.stdout;
  const lines = renderTable(['NAME', 'KIND', 'SIZE', 'SHA256'], cells, { style, width: context.stdout.width() });
  await context.stdout.write(`${lines.join('\n')}\n`);
  if (listedOutputs.length > rows.length)
    await context.stderr.write(
      `${listedOutputs.length - rows.length} more, of items: ${renderCommand('artifacts', view.runId, { options: '--json' })}\n`,
    );
  await context.stderr.write(
    `${style.dim(context.advise(`Fetch one: voidbox artifacts ${quoteRunId(view.runId)} get NAME`))}\n`,
  );
  return EXIT.success;
}

/** The row limit of a table on a terminal. */
const MOST_ROWS = 500;

async function get(name: string, found: RunOutputs, options: Options, context: CliContext): Promise<ExitCode> {
  const { view, outputs, plan, artifacts } = found;
  const declared = (plan?.stages ?? []).map((stage) => ({
    stage: stage.id,
    names: outputNamesOf(stage),
    of: stage.of,
  }));
  const output = findOutput(name, outputs, declared, view);
  const kind = await readKind(output, found);
  if (options.output === '-') return await print(output, kind, artifacts, context);
  const fallback = kind === 'file' ? '.' : sanitizeLine(output.name ?? output.label);
  const folder = resolve(context.cwd, options.output ?? fallback);
  const abort = new AbortController();
  const listening = context.onInterrupt(() => abort.abort());
  try {
    const target = { folder, force: options.force ?? false, signal: abort.signal };
    const bytes = artifacts.open(output.ref);
    const unpacked =
      output.name === null || output.isFile
        ? await saveFile(bytes, output.isFile ? `${output.label}.${output.name}` : output.label, target)
        : await unpackTar(bytes, target);
    await printSaved(output, kind, folder, unpacked, options, context);
    return EXIT.success;
  } catch (error) {
    if (abort.signal.aborted) return EXIT.interrupted;
    throw error;
  } finally {
    listening.dispose();
  }
}

async function printSaved(
  output: StageOutput,
  kind: OutputKind,
  folder: string,
  { entries, bytes, gitData }: Unpacked,
  options: Options,
  context: CliContext,
): Promise<void> {
  const { label, name, isPartial = false } = output;
  if (options.json)
    return await context.stdout.write(
      `${JSON.stringify({ stage: label, name, kind, partial: isPartial, folder, entries, bytes, gitData })}\n`,
    );
  const what = kind === 'file' ? 'file' : `${entries} ${entries === 1 ? 'entry' : 'entries'}`;
  const note = isPartial ? ' (partial: the stage did not succeed)' : '';
  await context.stderr.write(`${formatOutputName(output)}: ${what}, ${formatBytes(bytes)}, to ${folder}${note}\n`);
  if (gitData.length > 0)
    await context.stderr.write(
      `${context.stderr.style.yellow('warning')}: it contains a git repository (${gitData.join(', ')}): git can run programs that its files name, also for \`git status\`\n`,
    );
}

async function print(
  output: StageOutput,
  kind: OutputKind,
  artifacts: ArtifactStore,
  context: CliContext,
): Promise<ExitCode> {
  if (kind === 'folder')
    throw createUsageError(
      `\`${formatOutputName(output)}\` is a folder: -o - prints a file`,
      'Name a folder for it: -o FOLDER',
    );
  const hint = '-o FOLDER';
  const bytes = artifacts.open(output.ref);
  if (output.name === null || output.isFile) await printBytes(bytes, output.ref.sizeBytes, context, hint);
  else
    for await (const { body, sizeBytes } of streamTar(bytes, 'latin1'))
      await printBytes(body, sizeBytes, context, hint);
  return EXIT.success;
}
