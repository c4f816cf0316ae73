/** Parts of requests below `/v1`. */
import type { Context } from 'hono';
import type { z } from 'zod';
import type { FoundRun } from '../../app/void-box/find-run.ts';
import { findRun } from '../../app/void-box/find-run.ts';
import type { VoidBoxStarts } from '../../app/void-box/start.ts';
import type { Machine } from '../../app/machine.ts';
import type { ApiVersion } from '../../domain/void-box/event.ts';
import { readRunId, readSegment } from '../routes/run-id.ts';
import { createInvalidError } from './errors.ts';

/** The segments in a path: `/v1/runs/ID/stages/STAGE/artifacts/NAME`. */
const [STAGE_SEGMENT, NAME_SEGMENT] = [5, 7];

export interface Tools {
  readonly machine: Machine;
  readonly starts: VoidBoxStarts;
}

/** @throws AppError `api/no-run`, `api/invalid-request` */
export async function findRequestedRun(context: Context, { machine, starts }: Tools): Promise<FoundRun> {
  return await findRun(readRunId(context), starts.isUnderWay, machine);
}

export function readStage(context: Context): string {
  return readSegment(context, STAGE_SEGMENT, 'the stage');
}

export function readArtifactName(context: Context): string {
  return readSegment(context, NAME_SEGMENT, 'the name of the artifact');
}

export function readVersion({ req }: Context): ApiVersion {
  return req.query('api_version') === 'v2' ? 'v2' : 'v1';
}

/**
 * Reads a body that `checkBody` has parsed. An empty body is an empty object.
 * @throws VoidBoxError with the code
 */
export async function readBody<Shape extends z.ZodType>(
  { req }: Context,
  shape: Shape,
  code: 'INVALID_SPEC' | 'INVALID_PARAMS',
): Promise<z.output<Shape>> {
  const text = await req.text();
  const checked = shape.safeParse(text === '' ? {} : await req.json<unknown>());
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const place = issue?.path.join('.') ?? '';
  throw createInvalidError(
    code,
    `${place === '' ? 'the body' : `\`${place}\``}: ${issue?.message ?? 'it is not valid'}`,
  );
}
