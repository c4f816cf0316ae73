/** Tokens and the audit log. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { AccessUse } from '../../app/access/access-opener.ts';
import { type AuditPage, listAudit } from '../../app/access/audit.ts';
import {
  listTokens,
  MOST_TOKEN_GROUPS,
  MOST_TOKEN_REPOSITORIES,
  createToken,
  revokeToken,
  TOKEN_LIFE_MS,
  type TokenPage,
} from '../../app/access/tokens.ts';
import { MOST_RUN_GLOBS } from '../../domain/access/run-glob.ts';
import { SCOPES } from '../../domain/access/scopes.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { MOST_AUDIT_ROWS, MOST_TOKENS } from '../limits.ts';
import { createLimit } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readNameCursor, writeNameCursor } from './cursor.ts';

const DEFAULT_AUDIT_ROWS = 100;
const DEFAULT_TOKENS = 50;

const listNames = (most: number) => z.array(z.string()).max(most).readonly();

const TokenSchema = z
  .object({
    name: z.string(),
    scopes: z.array(z.enum(SCOPES)).readonly(),
    runs: listNames(MOST_RUN_GLOBS).openapi({ description: 'Patterns of ids; empty: every run.' }),
    groups: listNames(MOST_TOKEN_GROUPS),
    allowGit: listNames(MOST_TOKEN_REPOSITORIES),
    createdAtMs: z.number(),
    expiresAtMs: z.number().nullable().openapi({ description: 'Null: it does not expire.' }),
    lastUsedAtMs: z.number().nullable(),
    revokedAtMs: z.number().nullable(),
  })
  .openapi('Token');

const CreatedSchema = TokenSchema.extend({
  text: z.string().openapi({ description: 'The token. It is not stored, so no later answer has it.' }),
}).openapi('CreatedToken');

const CreateBody = z
  .strictObject({
    name: z.string(),
    scopes: z.array(z.enum(SCOPES)).min(1),
    runs: z.array(z.string()).default([]),
    groups: z.array(z.string()).default([]),
    allowGit: z.array(z.string()).default([]),
    lifeMs: z
      .number()
      .int()
      .nullable()
      .default(TOKEN_LIFE_MS)
      .openapi({ description: 'Milliseconds until it expires; null: it does not expire.' }),
  })
  .openapi('CreateToken');

const AuditSchema = z
  .object({
    id: z.number(),
    atMs: z.number(),
    token: z.string().nullable(),
    address: z.string().nullable(),
    method: z.string(),
    route: z.string(),
    runId: z.string().nullable(),
    status: z.number(),
    code: z.string().nullable(),
  })
  .openapi('AuditRow');

const TokenListSchema = z
  .object({ tokens: z.array(TokenSchema).readonly(), next: z.string().nullable() })
  .openapi('TokenList');

const TokensQuery = z.strictObject({
  limit: createLimit(MOST_TOKENS, `The tokens of a page; at most ${MOST_TOKENS}, by default ${DEFAULT_TOKENS}.`),
  cursor: z.string().optional().openapi({ description: '`next` of the previous page.' }),
});
const AuditListSchema = z
  .object({
    rows: z.array(AuditSchema).readonly(),
    next: z.number().nullable().openapi({ description: 'The `before` of the next page; null if no row follows.' }),
  })
  .openapi('AuditList');

const TokenPath = z.object({ name: z.string().openapi({ param: { name: 'name', in: 'path' } }) });

const AuditParams = z.strictObject({
  limit: createLimit(
    MOST_AUDIT_ROWS,
    `The rows of a page; at most ${MOST_AUDIT_ROWS}, by default ${DEFAULT_AUDIT_ROWS}.`,
  ),
  before: z
    .string()
    .regex(/^\d{1,15}$/, 'it is not the `next` of a page')
    .transform(Number)
    .optional()
    .openapi({ type: 'string' }),
  token: z.string().optional(),
  run: z.string().optional(),
});

const LIST = createRoute({
  method: 'get',
  path: '/tokens',
  summary: 'Lists tokens by name, also expired and revoked ones',
  request: { query: TokensQuery },
  responses: { 200: describeJson('A page of tokens.', TokenListSchema), ...PROBLEM },
});

const CREATE = createRoute({
  method: 'post',
  path: '/tokens',
  summary: 'Creates a token',
  request: { body: { required: true, content: { 'application/json': { schema: CreateBody } } } },
  responses: { 201: describeJson('The token, with its text.', CreatedSchema), ...PROBLEM },
});

const REVOKE = createRoute({
  method: 'post',
  path: '/tokens/{name}/revoke',
  summary: 'Revokes a token; its open requests end within 5 seconds',
  request: { params: TokenPath },
  responses: { 200: describeJson('The revoked token.', TokenSchema), ...PROBLEM },
});

const AUDIT = createRoute({
  method: 'get',
  path: '/audit',
  summary: 'Lists the changes that tokens made, the latest first',
  request: { query: AuditParams },
  responses: { 200: describeJson('A page of the audit log.', AuditListSchema), ...PROBLEM },
});

export function addTokenRoutes(routes: OpenAPIHono, { access, machine }: ApiOptions): void {
  const openTokens = async (use: AccessUse) => ({ tokens: (await access(use)).tokens, nowMs: machine.now().getTime() });
  routes.openapi(LIST, async (context) => {
    const { limit = DEFAULT_TOKENS, cursor } = context.req.valid('query');
    const after = cursor === undefined ? {} : { after: readNameCursor(cursor) };
    const { tokens, next } = await listTokens({ limit, ...after }, (await openTokens('find')).tokens);
    return context.json({ tokens, next: next === null ? null : writeNameCursor(next) }, 200);
  });
  routes.openapi(CREATE, async (context) => {
    // Only the owner makes the first token, so only the owner may make the database.
    const use = getCaller(context).kind === 'owner' ? 'make' : 'find';
    const { token, text } = await createToken(context.req.valid('json'), await openTokens(use));
    return context.json({ ...token, text }, 201);
  });
  routes.openapi(REVOKE, async (context) => {
    const { name } = context.req.valid('param');
    return context.json(await revokeToken(name, await openTokens('find')), 200);
  });
  routes.openapi(AUDIT, async (context) => {
    const { limit = DEFAULT_AUDIT_ROWS, before, token, run } = context.req.valid('query');
    const query = {
      limit,
      ...(before === undefined ? {} : { before }),
      ...(token === undefined ? {} : { token }),
      ...(run === undefined ? {} : { runId: run }),
    };
    return context.json(await listAudit(query, await access('find')), 200);
  });
}

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedTokens = [
  Promised<TokenPage, z.input<typeof TokenListSchema>>,
  Promised<AuditPage, z.input<typeof AuditListSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
