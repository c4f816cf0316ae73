import type { ErrorCodeInfo } from './code-info.ts';

/** Codes of the HTTP API, in `code` of its problems. No run and no stage ends with one. Part of `ERROR_CODES`. */
export const API_CODES = {
  'api/no-route': defineRequestCode(
    'The API has no route with this path and method.',
    'Read `/openapi.json`, which lists the routes.',
  ),
  'api/no-run': defineRequestCode(
    'No run of this state folder has the id. A request names the whole id, percent-encoded.',
    'List the runs with `GET /api/v1/runs`.',
  ),
  'api/not-admitted': defineRequestCode(
    'The run is started, and no worker has admitted it yet. A worker that died during an admission delays it by 30 seconds.',
    'Repeat the request after the time of `Retry-After`. `voidbox runs` names a worker that is missing.',
  ),
  'api/no-session': defineRequestCode(
    'No session of a step machine has the id.',
    'List the sessions with `GET /api/v1/sessions`.',
  ),
  'api/session-exists': defineRequestCode(
    'A session with the id of the request already exists, or existed.',
    'Choose another `session`.',
  ),
  'api/no-artifact': defineRequestCode(
    'The run has no output with this name, or names no artifact with this hash.',
    'List its outputs with `GET /api/v1/runs/ID/artifacts`.',
  ),
  'api/no-blob': defineRequestCode(
    'No upload has the hash that the request names. An upload is deleted 24 hours after its last use.',
    'Send the bytes with `PUT /api/v1/blobs/SHA256` first.',
  ),
  'api/wrong-hash': defineRequestCode(
    'The bytes of an upload have another SHA-256 than its path names. Nothing of them is kept.',
    'Compute the hash of the bytes that you send, and send them again.',
  ),
  'api/uploads-full': defineRequestCode(
    'All uploads together would have more than 20 GiB. Each counts as at least 1 MiB.',
    'Try again later: an upload is deleted 24 hours after its last use.',
  ),
  'api/upload-refused': defineRequestCode(
    'An upload of a start is not a tar, or it has an entry that is not unpacked.',
    'Pack only regular files, folders and relative links that stay inside: at most 100,000 entries and 2 GiB each, 200,000 and 4 GiB together.',
  ),
  'api/no-vm': defineRequestCode(
    'The stage of the run has no VM that it kept, or the VM has ended.',
    'List the VMs with `GET /api/v1/vms`.',
  ),
  'api/run-exists': defineRequestCode('A run with the id of the request already exists.', 'Choose another `runId`.'),
  'api/key-reused': defineRequestCode(
    'Another request has used the `Idempotency-Key`, or the `runId` with another key.',
    'Use another key for another request.',
  ),
  'api/invalid-request': defineRequestCode(
    'The body, a parameter or a header of the request does not have the form that the route demands.',
    'Follow the message; `/openapi.json` describes each route.',
  ),
  'api/unsupported-body': defineRequestCode(
    'The body of the request is not JSON by its `Content-Type`, or it has a `Content-Encoding`. A webhook also takes forms and plain text, in UTF-8.',
    'Send the body as it is, with `Content-Type: application/json`.',
  ),
  'api/too-large': defineRequestCode(
    'The request is larger than the API accepts: 4 MiB and 100 levels of JSON, 16 KiB of headers, 2 GiB of an upload, 1 MiB of an event.',
    'Send less; large files belong in uploads or in a mount.',
  ),
  'api/too-slow': defineRequestCode(
    'The request did not arrive in time: its headers within 10 seconds, its JSON within 30 seconds. An upload may not pause for 30 seconds.',
    'Send the request at once.',
  ),
  'api/too-many-connections': defineRequestCode(
    'The API has 1,000 open connections, or 900 over TCP, and accepts no further one.',
    'Close connections that are not used, and try again.',
  ),
  'api/foreign-request': defineRequestCode(
    'The `Host` of a request over TCP names another server, or the request comes from a web page of another site.',
    'Use an address that `voidbox ps` shows, or name the URL of the API, with the other options that it had: `voidbox up --listen HOST:PORT --public-url URL`.',
  ),
  'api/no-token': defineRequestCode(
    'The request arrived over TCP without a valid token: the token is missing, unknown, expired or revoked.',
    'Send `Authorization: Bearer TOKEN`; `voidbox token create NAME` on the machine of the API creates a token.',
  ),
  'api/not-allowed': defineRequestCode(
    'The token does not have the scope that the route demands, may not see the run or the session, or may not answer the question.',
    'Use a token with the scope and the run; `voidbox token list` on the machine of the API shows both. If a question is refused, the message names who may answer it.',
  ),
  'api/too-many-requests': defineRequestCode(
    'A token sent more than 50 requests a second, or an address more than 50 requests a second without a valid token or without the proof of a webhook.',
    'Wait for the seconds in `Retry-After`, and try again.',
  ),
  'api/no-such-token': defineRequestCode('No token has the name.', 'List the tokens: voidbox token list'),
  'api/token-exists': defineRequestCode(
    'A token with the name exists, or existed. The audit log names tokens, so each name is used once.',
    'Choose another name.',
  ),
  'api/access-unavailable': defineRequestCode(
    'The database of tokens and of the audit log does not answer. Runs continue.',
    'Try again. `voidbox ps` shows the state of the service.',
  ),
  'api/no-hook': defineRequestCode(
    'No enabled deployment has a webhook with the name of the path. A deleted one has the same answer.',
    'Compare the URL with `voidbox deployment show NAME`.',
  ),
  'api/no-deployment': defineRequestCode(
    'No deployment has the name, or it was deleted.',
    'List the deployments: voidbox deployments',
  ),
  'api/no-schedule': defineRequestCode(
    'The enabled version of the deployment has no schedule with the name.',
    'List the schedules: voidbox schedule list',
  ),
  'api/no-notification': defineRequestCode(
    'There is no notification with this id. Notifications are kept for 30 days.',
    'List them: `voidbox notifications`.',
  ),
  'api/no-delivery': defineRequestCode(
    'No delivery has the id, or the token may not see its run. Deliveries are kept for 90 days after their outcome.',
    'List the deliveries: voidbox deliveries',
  ),
  'api/delivery-open': defineRequestCode(
    'A delivery is open, so that its own run may still start. It cannot be replayed.',
    'Read why it waits: voidbox delivery show ID',
  ),
  'api/hook-method': defineRequestCode(
    'The path of a webhook or of a link to a question was requested with another method than those that it takes.',
    'Send an event with POST. Open a link with GET; the form of its page sends the answer with POST.',
  ),
  'api/hook-unproven': defineRequestCode(
    'The request does not prove its sender: its signature or token is missing, wrong, repeated or too old. The answer does not say which.',
    'Compare the secrets of the sender and of the deployment, and the clocks. `logs/api.log` in the state folder says why, at most once a minute for each webhook.',
  ),
  'api/hook-failed': defineRequestCode(
    'The webhook answers with the output of its run, and the run has failed, or its output has more than 1 MiB.',
    'Read the run: voidbox status RUN. The same event starts no second run.',
  ),
  'api/busy': defineRequestCode(
    'The bodies of webhooks that arrive now would have more than 64 MiB together, or 16 MiB of one address.',
    'Send the request again after the seconds in `Retry-After`.',
  ),
  'api/messages-full': defineRequestCode(
    'A session of messages would have more than 16 MiB, or there would be more than 1,000 sessions.',
    'Use another session. A session is deleted 90 days after its last message.',
  ),
  'api/skill-not-loaded': defineRequestCode(
    'The spec has a step machine that the embedded stack has not loaded. The API does not restart the stack.',
    'Load it with `voidbox up --skills FOLDER`, or start the spec with `voidbox run`, which loads it.',
  ),
  'api/no-secret': defineRequestCode(
    'No secret has the name for the deployment, or for all deployments.',
    'List the secrets: voidbox secret list',
  ),
  'api/secrets-full': defineRequestCode(
    'There would be more than 1,000 secrets. A value for one deployment counts as a secret of its own.',
    'Remove secrets that no deployment needs: voidbox secret rm NAME',
  ),
  'api/secrets-key': defineRequestCode(
    'The file with the keys of secrets is missing, lacks the key of a stored value, has another form, or can be read by other users.',
    'Follow the message. The embedded stack has the file `secrets.key` in its state folder; otherwise VOIDBOX_SECRETS_KEY_FILE names it.',
  ),
  'api/secret-damaged': defineRequestCode(
    'The stored value of a secret is not the one that was encrypted for its name and its deployment.',
    'Set it again: voidbox secret set NAME',
  ),
  'api/no-address': defineRequestCode(
    'A link to a question needs a URL that a person can open. The service listens nowhere over TCP, or only on all addresses of the machine and without a name.',
    'Give the service an address and the URL that people use: voidbox up --listen 127.0.0.1:8400 --public-url https://HOST',
  ),
  'api/no-link': defineRequestCode(
    'No link has this text, or it has expired, was used, or its question has an answer. The page does not say which.',
    'Ask for another link: voidbox approval link RUN STAGE --as NAME',
  ),
  'api/bug': defineRequestCode(
    'A bug in the API.',
    'Report it with the last lines of `logs/api.log` in the state folder.',
  ),
} as const satisfies Record<string, ErrorCodeInfo>;

function defineRequestCode(
  summary: string,
  remedy: string,
): ErrorCodeInfo & { readonly kind: 'request'; readonly retry: 'never' } {
  return { kind: 'request', retry: 'never', summary, remedy };
}
