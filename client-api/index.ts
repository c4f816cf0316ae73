/** The exports of `voidbox/client`: a client of the HTTP API, for Node and for pages of the service's own origin. */
export { createClient, type BlobCalls, type Client } from './client.ts';
export type { CallOptions, ClientOptions, FetchFunction } from './options.ts';
export type { ArtifactName, CancelOptions, ListOptions, ResultOptions, RunCalls, StartOptions } from './runs.ts';
export type { FollowOptions, RunEnd } from './follow.ts';
export { ApiError, ConnectionError, ForeignAnswerError, VoidboxError } from './errors.ts';
export type {
  Answer,
  AnswerReceipt,
  Artifact,
  Artifacts,
  Blob,
  CancelledRun,
  Diagnostic,
  ForkRun,
  Health,
  Problem,
  Readiness,
  Result,
  RerunPreview,
  RetryRun,
  Run,
  RunList,
  Stage,
  StartedRerun,
  StartedRun,
  StartRun,
  Version,
} from './openapi.ts';
export type { RunEvent } from '../domain/run/event.ts';
