/**
 * The page of a link to a question. GET and HEAD change nothing, because chat programs open links to show a preview. A
 * POST answers. The link is the only right of the request, so no answer, log or row contains it.
 */
import type { OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { answerLink, type OpenedLink, openLink } from '../../app/approval-links/answer-link.ts';
import { nameLink } from '../../app/approval-links/link-text.ts';
import { AppError } from '../../app/app-error.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { UnprovenRequests } from '../access/unproven-requests.ts';
import type { ApiOptions } from '../api-options.ts';
import { getClientAddress } from '../listener.ts';
import { createProblem, toProblem, toProblemResponse } from '../problems.ts';
import { readAnswerForm } from './answer-form.ts';
import { PAGE_HEADERS, renderNoLink, renderQuestion, renderReceipt } from './approval-page.ts';

export const APPROVAL_PATH = '/approvals/:link';
const LINE_EVERY_MS = 60_000;

type PageStatus = 200 | 404 | 422;

export function addApprovalPages(routes: OpenAPIHono, options: ApiOptions, unproven: UnprovenRequests): void {
  const { machine, access, log } = options;
  const open = createOpener(options);
  const sendPage = (context: Context, html: string, status: PageStatus): Response =>
    context.body(html, status, PAGE_HEADERS);
  const audit = createAudit(options);
  // All requests count: a person sends few, and a link that got to strangers must not be read without a limit.
  routes.get(APPROVAL_PATH, async (context) =>
    unproven.count(context, async () => {
      const link = await open(context);
      return link === null
        ? sendPage(context, renderNoLink(), 404)
        : sendPage(context, renderQuestion(link, null), 200);
    }),
  );
  routes.post(APPROVAL_PATH, async (context) =>
    unproven.count(context, async () => {
      const link = await open(context);
      if (link === null) return sendPage(context, renderNoLink(), 404);
      try {
        const answer = await readAnswerForm(context.req, link.question.question.fields);
        const outcome = await answerLink(link, answer, { env: machine.env, machine, access });
        if (outcome.kind === 'answered') {
          const { stage, decision } = outcome.receipt;
          await audit(context, link, { status: 200, code: null });
          log(`${nameLink(link.text)}: ${decision} ${sanitizeLine(stage)} of run ${link.runId} as ${link.as}`);
          return sendPage(context, renderReceipt(link.runId, outcome.receipt), 200);
        }
        const again = outcome.kind === 'refused' ? await open(context) : null;
        const [status, code] =
          again === null ? ([404, 'api/no-link'] as const) : ([422, 'cli/answer-refused'] as const);
        await audit(context, link, { status, code });
        return again === null || outcome.kind === 'used'
          ? sendPage(context, renderNoLink(), 404)
          : sendPage(context, renderQuestion(again, outcome.why), 422);
      } catch (error) {
        const problem = await toProblem(error);
        await audit(context, link, { status: problem?.status ?? 500, code: problem?.code ?? 'api/bug' });
        throw error;
      }
    }),
  );
  routes.all(APPROVAL_PATH, async (context) =>
    unproven.count(context, () =>
      Promise.resolve(
        toProblemResponse(
          createProblem('api/hook-method', `a link takes GET and POST, and not ${context.req.method}`),
          {
            allow: 'GET, HEAD, POST',
          },
        ),
      ),
    ),
  );
}

/** Hides from strangers why links cannot be checked, such as the path of the file with the key. */
function createOpener({ machine, access, log }: ApiOptions): (context: Context) => Promise<OpenedLink | null> {
  let loggedAtMs = -LINE_EVERY_MS;
  return async ({ req }) => {
    try {
      return await openLink(req.param('link') ?? '', { env: machine.env, machine, access });
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const nowMs = machine.now().getTime();
      if (nowMs - loggedAtMs >= LINE_EVERY_MS) {
        loggedAtMs = nowMs;
        log(`links to questions cannot be checked: ${error.message}`);
      }
      throw new CodedError('api/access-unavailable', 'links to questions cannot be checked now');
    }
  };
}

interface Outcome {
  readonly status: number;
  readonly code: AnyErrorCode | null;
}

/** Writes a request with a right link to the audit log. */
function createAudit({
  access,
  machine,
  log,
}: ApiOptions): (context: Context, link: OpenedLink, outcome: Outcome) => Promise<void> {
  return async (context, { text, runId }, outcome) => {
    const row = {
      atMs: machine.now().getTime(),
      token: nameLink(text),
      address: getClientAddress(context),
      method: context.req.method,
      route: APPROVAL_PATH,
      runId,
      ...outcome,
    };
    await access('find')
      .then(({ audit }) => audit.add(row))
      // The answer is given, so the page must not claim that it failed.
      .catch((error: Error) => log(`the audit log lacks an answer by ${row.token}: ${error.message}`));
  };
}
