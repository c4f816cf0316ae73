/** The shapes of requests and answers about deployments. */
import { z } from '@hono/zod-openapi';
import type { DeployResult } from '../app/deployments/deploy.ts';
import type { DeploymentJson, DeploymentPage, ShownDeployment } from '../app/deployments/manage.ts';
import { NOTIFY_STATES } from '../domain/notification/notify.ts';
import { MOST_DEPLOYMENTS } from './limits.ts';
import { createLimit, createMap, DiagnosticSchema, Text, Texts } from './schemas.ts';

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'it is not a SHA-256 in 64 lower-case hexadecimal digits');
const MOST_LISTED = 64;

export const DeployBody = z
  .strictObject({
    name: Text.optional().openapi({ description: 'The name of the deployment. Absent: the name of the spec.' }),
    spec: Text.min(1).openapi({ description: 'The spec, as YAML or JSON.' }),
    specName: Text.min(1).max(255).default('spec').openapi({ description: 'The name of its file, for diagnostics.' }),
    files: Sha256.nullable().default(null).openapi({
      description:
        'SHA-256 of an uploaded tar with the files that the spec names: parts, mounts, agent skills, images. Null: it names none.',
    }),
    specDir: Text.default('').openapi({ description: 'The folder of the spec in the tar. Empty: its top.' }),
    bundles: createMap(Text, Sha256).default({}).openapi({
      description: 'SHA-256 of uploaded git bundles, by the paths of repositories from the folder of the spec.',
    }),
    params: Texts.default({}).openapi({ description: 'Parameters; those of a trigger override them.' }),
    mockAgents: z.boolean().default(false).openapi({
      description: 'The mock agent plays the agents of all runs, which need no key of a model.',
    }),
    isPaused: z.boolean().default(false).openapi({ description: 'Whether a new deployment begins paused.' }),
    isDry: z.boolean().default(false).openapi({ description: 'Only show what would change.' }),
    allowMounts: z.array(Text).max(MOST_LISTED).default([]).openapi({
      description: 'Folders of the machine of the service that runs may mount `ro`. A token may not name them.',
    }),
    allowGit: z.array(Text).max(MOST_LISTED).default([]).openapi({
      description: 'Repositories of the network that runs may fetch, as HOST/PATH.',
    }),
    notify: z
      .strictObject({ text: Text.min(1), name: Text.min(1).max(255).default('notify') })
      .nullable()
      .default(null)
      .openapi({
        description:
          'A file of receivers that are added to those of the spec, as YAML or JSON: the keys `notify`, `late_after` and `waiting_after` of a spec. `name` is its name in diagnostics.',
      }),
  })
  .openapi('Deploy');

const NamedChanges = z.object({
  added: z.array(z.string()).readonly(),
  removed: z.array(z.string()).readonly(),
  changed: z.array(z.string()).readonly(),
});

/** The document shows a trigger as an object: the spec has its kinds. */
const TriggerSchema = z
  .object({ name: z.string(), source: z.object({ kind: z.string() }) })
  .openapi('Trigger', { description: 'Has further fields: the keys of `on:` with their defaults.' });

const AbsentUpstreams = z
  .array(z.string())
  .readonly()
  .openapi({ description: 'Deployments that its triggers follow, and that do not exist.' });

/** Without the names of secrets, which `secrets` lists. */
const NotifySchema = z
  .object({
    receivers: z
      .array(
        z.object({
          name: z.string(),
          states: z.array(z.enum(NOTIFY_STATES)).readonly(),
          as: z.string().nullable(),
          target: z.object({ kind: z.string() }),
        }),
      )
      .readonly(),
    lateAfterMs: z.number().nullable(),
    waitingAfterMs: z.number(),
  })
  .openapi('Notify', { description: 'A target has further fields: the keys of `notify:`.' });

export const DeployedSchema = z
  .object({
    name: z.string(),
    version: z.number().nullable().openapi({ description: 'Null: a dry run would make a new version.' }),
    isNew: z.boolean().openapi({ description: 'False: the enabled version is the same.' }),
    isPaused: z.boolean(),
    changes: z.object({
      stages: NamedChanges,
      triggers: NamedChanges,
      others: z.array(z.enum(['files', 'params', 'notify', 'mockAgents', 'allowMounts', 'allowGit'])).readonly(),
    }),
    triggers: z.array(TriggerSchema).readonly(),
    notify: NotifySchema,
    secrets: z.array(z.string()).readonly(),
    absentUpstreams: AbsentUpstreams,
    diagnostics: z.array(DiagnosticSchema).readonly(),
  })
  .openapi('Deployed');

const VersionSchema = z
  .object({
    version: z.number(),
    createdAtMs: z.number(),
    deployer: z.string().nullable().openapi({ description: 'The token that deployed it; null: the owner.' }),
    specName: z.string(),
    triggers: z.array(TriggerSchema).readonly(),
    notify: NotifySchema,
    secrets: z.array(z.string()).readonly(),
    allowGit: z.array(z.string()).readonly(),
    mockAgents: z.boolean().openapi({ description: 'Whether the mock agent plays the agents of its runs.' }),
    stages: z.array(z.object({ id: z.string(), hash: z.string() })).readonly(),
    params: z.array(z.string()).readonly().openapi({ description: 'Names of the parameters that the deployer set.' }),
  })
  .openapi('DeploymentVersion');

const FIELDS = {
  name: z.string(),
  version: z.number(),
  isPaused: z.boolean(),
  onPause: z.enum(['hold', 'drop']),
  createdAtMs: z.number(),
  changedAtMs: z.number(),
  enabled: VersionSchema,
};

export const DeploymentSchema = z.object(FIELDS).openapi('Deployment');

const QueueSchema = z
  .object({
    deployment: z.string(),
    trigger: z.string(),
    state: z.enum(['connecting', 'reading', 'waiting', 'faulty']),
    code: z.string().nullable().openapi({ description: 'Why it is faulty; null: it is not.' }),
    message: z.string().nullable(),
    sinceMs: z.number().openapi({ description: 'When the state began.' }),
  })
  .openapi('DeploymentQueue');

export const ShownDeploymentSchema = z
  .object({
    ...FIELDS,
    versions: z.array(VersionSchema).readonly(),
    absentUpstreams: AbsentUpstreams,
    queues: z.array(QueueSchema).readonly().openapi({ description: 'The queues that this service reads for it.' }),
    problems: z
      .array(z.object({ trigger: z.string(), code: z.string(), message: z.string(), sinceMs: z.number() }))
      .readonly()
      .openapi({ description: 'The triggers whose source the service cannot read.' }),
  })
  .openapi('ShownDeployment');

export const DeploymentListSchema = z
  .object({
    deployments: z.array(DeploymentSchema).readonly(),
    next: z.string().nullable().openapi({ description: 'The `cursor` of the next page; null if none follows.' }),
  })
  .openapi('DeploymentList');

export const DeploymentsQuery = z.strictObject({
  limit: createLimit(MOST_DEPLOYMENTS, `The deployments of a page; at most ${MOST_DEPLOYMENTS}, by default 50.`),
  cursor: z.string().optional().openapi({ description: '`next` of the previous page.' }),
});

export const DeploymentPath = z.object({
  deployment: z.string().openapi({ param: { name: 'deployment', in: 'path' } }),
});

export const PauseBody = z
  .strictObject({ deliveries: z.enum(['hold', 'drop']).default('hold') })
  .openapi('PauseDeployment');

export const RollbackBody = z
  .strictObject({
    version: z.number().int().min(1).max(2_147_483_647).optional().openapi({
      description: 'The version to enable. Absent: the one before the enabled one.',
    }),
  })
  .openapi('RollBackDeployment');

export const DeletedSchema = z.object({ name: z.string(), isDeleted: z.literal(true) }).openapi('DeletedDeployment');

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedDeployments = [
  Promised<DeployResult, z.input<typeof DeployedSchema>>,
  Promised<DeploymentJson, z.input<typeof DeploymentSchema>>,
  Promised<ShownDeployment, z.input<typeof ShownDeploymentSchema>>,
  Promised<DeploymentPage, z.input<typeof DeploymentListSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
