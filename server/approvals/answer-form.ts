/** Reads the form of a page of a link. */
import type { HonoRequest } from 'hono';
import type { ApprovalField } from '../../domain/plan/plan.ts';
import { ANSWER_LIMITS, type FieldValues } from '../../domain/run/approval-answer.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { GivenAnswer } from '../../app/answers/given-answer.ts';
import { createRequestError } from '../problems.ts';
import { FIELD_PREFIX } from './approval-page.ts';

/** Fields of 64 KiB and a comment, of which each byte may be percent-encoded. */
export const FORM_BYTES = 256 * 1024;
const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;

/**
 * @param fields  those of the question; other names of the form are ignored
 * @throws AppError `api/unsupported-body`, `api/too-large`, `api/invalid-request`
 */
export async function readAnswerForm(
  req: HonoRequest,
  fields: readonly ApprovalField[],
): Promise<Omit<GivenAnswer, 'by'>> {
  if (req.header('content-encoding') !== undefined || !FORM_TYPE.test(req.header('content-type') ?? ''))
    throw createRequestError('api/unsupported-body', 'an answer is a form: `application/x-www-form-urlencoded`');
  const form = new URLSearchParams(await readText(req));
  const readOne = (name: string): string | null => {
    const values = form.getAll(name);
    if (values.length > 1) throw createRequestError('api/invalid-request', `the form has \`${name}\` more than once`);
    return values[0] ?? null;
  };
  const decision = readOne('decision');
  if (decision !== 'approve' && decision !== 'reject')
    throw createRequestError('api/invalid-request', '`decision` of the form is `approve` or `reject`');
  const comment = (readOne('comment') ?? '').replaceAll('\r\n', '\n').trim();
  if (comment.length > ANSWER_LIMITS.commentCharacters)
    throw createRequestError(
      'api/invalid-request',
      `\`comment\` has ${comment.length} characters; at most ${ANSWER_LIMITS.commentCharacters} are allowed`,
    );
  const given = readFields(fields, readOne, decision === 'approve');
  return {
    decision,
    ...(comment === '' ? {} : { comment }),
    ...(Object.keys(given).length === 0 ? {} : { fields: given }),
  };
}

/** A browser sends an empty text for a field that its person left out. */
function readFields(
  fields: readonly ApprovalField[],
  readOne: (name: string) => string | null,
  isApproval: boolean,
): FieldValues {
  return createMapping(
    fields.flatMap(({ name, type, required }): [string, string][] => {
      const value = readOne(`${FIELD_PREFIX}${name}`);
      const mayBeEmpty = isApproval && required && type === 'text';
      return value === null || (value === '' && !mayBeEmpty) ? [] : [[name, value]];
    }),
  );
}

async function readText(req: HonoRequest): Promise<string> {
  const createSizeError = () => createRequestError('api/too-large', `a form has at most ${FORM_BYTES} bytes`);
  if (Number(req.header('content-length') ?? 0) > FORM_BYTES) throw createSizeError();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = req.raw.body?.getReader();
  // The stream is not cancelled: that would end the connection before its answer.
  for (;;) {
    const { done = true, value } = (await reader?.read()) ?? {};
    if (done || value === undefined) break;
    size += value.byteLength;
    if (size > FORM_BYTES) throw createSizeError();
    chunks.push(value);
  }
  return Buffer.concat(chunks).toString('utf8');
}
