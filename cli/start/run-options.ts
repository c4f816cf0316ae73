/**
 * The options that `run`, `retry` and `fork` share: how a run is started and followed, and what it gets of this
 * machine.
 */
import type { Command } from 'commander';
import { createRunId } from '../../client/runs/new-id.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { runIdProblem } from '../../domain/run/run-id.ts';
import { refuseReservedRunId } from '../../app/runs/run-id.ts';
import { createUsageError } from '../../app/app-error.ts';
import { selectHostVariables } from '../../app/start/host-variables.ts';
import { readTypedInput } from './typed-input.ts';
import type { CliContext } from '../context.ts';
import { parseParam } from './spec-options.ts';
import { type LimitOptions } from '../../app/start/run-limits.ts';
import { addLimitOptions } from './limit-options.ts';
import { parsePlaces } from '../../app/start/plan-addresses.ts';
import { resolveFolders } from '../../app/start/plan-mounts.ts';
import { type ImagePlaces } from '../../app/start/plan-images.ts';
import { parseImage } from './spec-options.ts';
import type { RerunOptions } from '../../app/control/run-control.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { shorten } from '../../domain/units/quote.ts';

export interface RunOptions extends LimitOptions {
  readonly detach?: boolean;
  readonly input?: string;
  readonly runId?: string;
  readonly param?: Readonly<Record<string, string>>;
  readonly allowMounts?: readonly string[];
  readonly allowGit?: readonly string[];
  readonly image?: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

/** @param inputDefault  what the input is without `--input`, for the help */
export function addRunOptions(command: Command, inputDefault = ''): void {
  command
    .option('-d, --detach', 'start the run, print its id, and do not follow it')
    .option(
      '-i, --input <text>',
      `the input of the first stages, at /workspace/input.json; @FILE reads a file, - reads standard input${inputDefault}`,
    )
    .option('--param <name=value>', 'set a parameter of the spec; repeatable', parseParam)
    .option(
      '--allow-mounts <folder>',
      'let this run mount and use a host folder outside of the folder of the spec; repeatable',
      (folder: string, before?: readonly string[]) => [...(before ?? []), folder],
    )
    .option(
      '--allow-git <host/path>',
      'let this run fetch a repository, or all repositories below a path, with your git login; repeatable',
      (place: string, before?: readonly string[]) => [...(before ?? []), place],
    )
    .option(
      '--image <name=path>',
      'use a folder, tar or OCI layout for an image name of the spec; repeatable',
      parseImage,
    )
    .option('--run-id <id>', 'the id of the run (default: a generated id)');
  addLimitOptions(command);
}

interface ResolvedOptions extends Omit<RerunOptions, 'mayAsk'> {
  /** Start it and do not follow it. */
  readonly detach: boolean;
  readonly json: boolean;
}

/**
 * @param given  stages whose outputs the run takes of an earlier one
 * @throws AppError for what was typed wrong, and for variables that are not set
 */
export async function resolveRunOptions(
  plan: Plan,
  options: RunOptions,
  context: CliContext,
  given: ReadonlySet<string> = new Set(),
): Promise<ResolvedOptions> {
  const runId = options.runId ?? createRunId(plan.name, context.now());
  refuseReservedRunId(runId);
  const problem = runIdProblem(runId);
  if (problem !== null) throw createUsageError(`\`${shorten(runId)}\` is not a valid run id: ${problem}`);
  return {
    runId,
    allowMounts: resolveAllowedMounts(options.allowMounts ?? [], context),
    allowGit: resolveAllowedPlaces(options.allowGit ?? [], context),
    hostVariables: selectHostVariables(plan, given, context),
    input: options.input === undefined ? null : await readTypedInput(options.input, context),
    detach: options.detach ?? false,
    json: options.json ?? false,
  };
}

/** Returns the folders in which a spec's images may be, as the options set them. */
export function resolveImagePlaces(
  { image = {}, allowMounts = [] }: Pick<RunOptions, 'image' | 'allowMounts'>,
  { cwd }: CliContext,
): Pick<ImagePlaces, 'given' | 'allow'> {
  return { given: image, allow: resolveFolders(allowMounts, cwd) };
}

function resolveAllowedPlaces(places: readonly string[], { env }: CliContext): readonly string[] {
  if (places.length > 0 && env.temporalConfigured)
    throw createUsageError(
      '`--allow-git` of `run` works only with the embedded stack, but TEMPORAL_* names your own Temporal server, where the worker decides',
      `Pass it to the worker on its host: voidbox worker --allow-git ${places.map(quoteArgument).join(' ')}`,
    );
  return parsePlaces(places);
}

function resolveAllowedMounts(folders: readonly string[], { env, cwd }: CliContext): readonly string[] {
  if (folders.length > 0 && env.temporalConfigured)
    throw createUsageError(
      '`--allow-mounts` of `run` works only with the embedded stack, but TEMPORAL_* names your own Temporal server, where the worker decides',
      `Pass it to the worker on its host: voidbox worker --allow-mounts ${folders.map(quoteArgument).join(' ')}`,
    );
  return resolveFolders(folders, cwd);
}
