/** Makes links to questions. Each holder of a link may answer, so a token needs the scope `admin`, as for a token. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { ApprovalLink } from '../../app/approval-links/approval-links.ts';
import { linkStage } from '../../app/approval-links/link-stage.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { RunPath } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readKnownRunId } from './run-id.ts';

const LinkBody = z
  .strictObject({
    stage: z.string().optional().openapi({ description: 'Absent: the only stage of the run that asks.' }),
    as: z.string().max(ANSWER_LIMITS.byCharacters).openapi({
      description: 'The name that answers. `by` of the approval contains it.',
    }),
  })
  .openapi('LinkQuestion');

const LinkSchema = z
  .object({
    url: z.string().openapi({ description: 'Each holder of it may answer, once.' }),
    link: z.string().openapi({ description: 'The name of the link in the audit log.' }),
    runId: z.string(),
    stage: z.string(),
    as: z.string(),
    expiresAt: z.string(),
  })
  .openapi('ApprovalLink');

const LINK = createRoute({
  method: 'post',
  path: '/runs/{runId}/approval-links',
  summary: 'Makes a link with which a person answers a question of a run once, without a token',
  request: {
    params: RunPath,
    body: { required: true, content: { 'application/json': { schema: LinkBody } } },
  },
  responses: { 200: describeJson('The link.', LinkSchema), ...PROBLEM },
});

export function addApprovalLinkRoute(routes: OpenAPIHono, options: ApiOptions): void {
  const { machine, access, readClientUrl = () => Promise.resolve(null) } = options;
  routes.openapi(LINK, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { stage = null, as } = context.req.valid('json');
    // The use of the link is a row. Only the owner may make the database.
    if (getCaller(context).kind === 'owner') await access('make');
    const link = await linkStage({ runId, stage, as }, { env: machine.env, machine, access, readClientUrl });
    return context.json(link, 200);
  });
}

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedLink = Promised<ApprovalLink, z.input<typeof LinkSchema>>;

type Promised<Given extends Wanted, Wanted> = Given;
