/** The shapes of requests and answers about deliveries. */
import { z } from '@hono/zod-openapi';
import { type DeliveryPage, SHOWN_CHARACTERS, type ShownDelivery } from '../../app/deliveries/read-deliveries.ts';
import { MOST_REPLAYS, type Replay } from '../../app/deliveries/replay-deliveries.ts';
import { DELIVERY_STATES, HOLDS } from '../../domain/delivery/delivery.ts';
import { isDeliveryId } from '../../domain/delivery/delivery-id.ts';
import { MOST_DELIVERIES } from '../limits.ts';
import { allowAbsence, createLimit, Text } from '../schemas.ts';

export const DEFAULT_DELIVERIES = 50;

const Id = z.string().refine(isDeliveryId, 'it is not the id of a delivery');
const State = z.enum(DELIVERY_STATES);
const Since = z.iso.datetime({ offset: true, error: 'it is not a time of ISO 8601 with a zone' });

export const DeliveryPath = z.object({ delivery: Id.openapi({ param: { name: 'delivery', in: 'path' } }) });

export const DeliveriesQuery = z.strictObject({
  limit: createLimit(
    MOST_DELIVERIES,
    `The deliveries of a page; at most ${MOST_DELIVERIES}, by default ${DEFAULT_DELIVERIES}.`,
  ),
  before: z
    .string()
    .regex(/^\d{1,15}$/, 'it is not the `next` of a page')
    .transform(Number)
    .optional()
    .openapi({ type: 'string', description: '`next` of the previous page.' }),
  deployment: Text.optional(),
  trigger: Text.optional(),
  state: State.optional(),
  since: Since.optional().openapi({ description: 'Only deliveries that were accepted at this time or later.' }),
});

const DeliverySchema = z
  .object({
    id: z.string(),
    deployment: z.string(),
    trigger: z.string().openapi({ description: '`api` for a run that a person or a program asked for.' }),
    version: z.number(),
    acceptedAtMs: z.number(),
    state: State,
    hold: z.enum(HOLDS).nullable().openapi({ description: 'Why it waits; null: it does not wait.' }),
    dueAtMs: z.number().nullable().openapi({ description: 'The service looks at it again; null: it has its outcome.' }),
    runId: z.string().nullable(),
    runEndedAtMs: z.number().nullable(),
    into: z.string().nullable().openapi({ description: 'The delivery that replaces it.' }),
    code: z.string().nullable().openapi({ description: 'The reason of its outcome, or of its latest failure.' }),
    tries: z.number().openapi({ description: 'Failed tries to start its run.' }),
    decidedAtMs: z.number().nullable(),
    replayOf: z.string().nullable(),
    notBeforeMs: z.number().nullable(),
    expiresAtMs: z.number().nullable(),
    schedule: z
      .object({
        atMs: z.number().openapi({ description: 'As the schedule names it, without jitter.' }),
        isOvertaken: z.boolean().openapi({ description: 'Whether a later time had passed at acceptance.' }),
        isAsked: z.boolean().openapi({ description: 'Whether a person asked for this time.' }),
      })
      .nullable()
      .openapi({ description: 'The time of the schedule; null: its trigger is no schedule.' }),
    contentType: z.string(),
    bodyBytes: z.number(),
    bodySha256: z.string(),
  })
  .openapi('Delivery');

export const DeliveryListSchema = z
  .object({
    deliveries: z.array(DeliverySchema).readonly(),
    next: z.number().nullable().openapi({ description: 'The `before` of the next page; null if none follows.' }),
  })
  .openapi('DeliveryList');

export const KeysSchema = z.object({
  dedupe: z.string().nullable(),
  debounce: z.string().nullable(),
  batch: z.string().nullable(),
  rate: z.string().nullable(),
  order: z.string().nullable(),
});

const TextMap = z.record(z.string(), z.string()).readonly();

const ChainLinkSchema = z.object({
  delivery: z.string().nullable().openapi({ description: 'Null: the token may not see its run.' }),
  deployment: z.string().nullable(),
  runId: z.string().nullable(),
});

export const ShownDeliverySchema = DeliverySchema.extend({
  message: z.string().nullable(),
  chain: z
    .array(ChainLinkSchema)
    .readonly()
    .openapi({ description: 'The deliveries whose ended runs led to this one, the first one first.' }),
  details: z
    .object({
      senderId: z.string().nullable(),
      traceparent: z.string().nullable(),
      cloudEvent: z.object({ source: z.string(), id: z.string() }).nullable(),
      headers: TextMap,
      params: TextMap,
      keys: KeysSchema.nullable().openapi({ description: 'Null: it is not decided yet.' }),
      payload: z
        .string()
        .nullable()
        .openapi({
          description: `At most ${SHOWN_CHARACTERS} characters, with secrets of the deployment redacted; null: deleted.`,
        }),
      isCut: z.boolean(),
    })
    .nullable()
    .openapi({ description: 'Null: the secrets that must be redacted cannot be read.' }),
}).openapi('ShownDelivery');

const ReplayFilterSchema = z.strictObject({
  deployment: Text,
  trigger: allowAbsence(Text),
  state: allowAbsence(State),
  since: allowAbsence(Since),
});

export type ReplayFilterBody = z.output<typeof ReplayFilterSchema>;

export const ReplayBody = z
  .strictObject({
    deliveries: allowAbsence(z.array(Id).min(1).max(MOST_REPLAYS)),
    filter: ReplayFilterSchema.optional().openapi({ description: 'Deliveries with an outcome that are not replays.' }),
    isDry: z.boolean().default(false).openapi({ description: 'Only say which deliveries would be replayed.' }),
  })
  .refine(
    ({ deliveries, filter }) => (deliveries === undefined) !== (filter === undefined),
    'it has either `deliveries` or `filter`',
  )
  .openapi('ReplayDeliveries');

export const ReplaysSchema = z
  .object({
    replays: z
      .array(
        z.object({
          delivery: z.string(),
          replay: z.string().nullable().openapi({ description: 'The new delivery; null: none was made.' }),
          code: z.string().nullable().openapi({ description: 'Why it cannot be replayed; null: it can.' }),
          message: z.string().nullable(),
        }),
      )
      .readonly(),
  })
  .openapi('Replays');

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedDeliveries = [
  Promised<DeliveryPage, z.input<typeof DeliveryListSchema>>,
  Promised<ShownDelivery, z.input<typeof ShownDeliverySchema>>,
  Promised<{ readonly replays: readonly Replay[] }, z.input<typeof ReplaysSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
