/** Opens tokens, the audit log and triggers in PostgreSQL. No other file opens them. The packages are loaded here, when they are used. */
import type { AccessStore } from './access.ts';
import type { AccessTarget } from './postgres/database.ts';

export type { AccessTarget } from './postgres/database.ts';

export interface OpenAccessOptions {
  readonly target: AccessTarget;
  /** The folder with the files of SQL, in the package. */
  readonly migrationsDir: string;
  /** If false, a schema that is older than this build is an error. */
  readonly migrate: boolean;
  /** Waits until the server is up again, after a connection was lost. @throws CodedError if it knows why it is not */
  readonly recover: () => Promise<void>;
  /** A query is sent again for so long while its connections are lost, and at least once. */
  readonly retryForMs: number;
  readonly warn: (message: string) => void;
}

/** The folder with the files of SQL, from the folder of the package. */
export const MIGRATIONS_FOLDER = ['store', 'postgres', 'migrations'] as const;

/** @throws CodedError `api/access-unavailable`, `host/disk-full` */
export async function openAccess(options: OpenAccessOptions): Promise<AccessStore> {
  const { migrateSchema, requireSchema } = await import('./postgres/schema.ts');
  if (options.migrate) await migrateSchema(options);
  else await requireSchema(options);
  const { openDatabase } = await import('./postgres/database.ts');
  const { createPostgresTokens } = await import('./postgres/token-store.ts');
  const { createPostgresAudit } = await import('./postgres/audit-log.ts');
  const { createPostgresDeployments } = await import('./postgres/deployment-store.ts');
  const { createPostgresSecrets } = await import('./postgres/secret-store.ts');
  const { createPostgresSchedules } = await import('./postgres/schedule-store.ts');
  const { createPostgresApprovalLinks } = await import('./postgres/approval-link-store.ts');
  const { createPostgresNotifications } = await import('./postgres/notification-store.ts');
  const { createPostgresDeliveries } = await import('./postgres/delivery-store.ts');
  const { createPostgresSources } = await import('./postgres/source-store.ts');
  const database = openDatabase(options);
  return {
    tokens: createPostgresTokens(database),
    audit: createPostgresAudit(database),
    triggers: {
      deployments: createPostgresDeployments(database),
      deliveries: createPostgresDeliveries(database, options.target),
      schedules: createPostgresSchedules(database),
      secrets: createPostgresSecrets(database),
      sources: createPostgresSources(database),
      approvalLinks: createPostgresApprovalLinks(database),
      notifications: createPostgresNotifications(database),
    },
    close: () => database.close(),
  };
}

/**
 * Brings the schema of your own server to this build.
 * @returns names of the changes that were made
 * @throws CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function migrateAccess(
  options: Pick<OpenAccessOptions, 'target' | 'migrationsDir' | 'warn'>,
): Promise<readonly string[]> {
  const { migrateSchema } = await import('./postgres/schema.ts');
  return await migrateSchema(options);
}
