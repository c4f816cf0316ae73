/** The error codes of Void-Box's API. Its clients compare them. */

/** `true`: the same request may succeed later. */
export const VOID_BOX_CODES = {
  INVALID_SPEC: false,
  INVALID_POLICY: false,
  NOT_FOUND: false,
  ALREADY_TERMINAL: false,
  RESOURCE_LIMIT_EXCEEDED: true,
  INVALID_PARAMS: false,
  INTERNAL_ERROR: true,
  STRUCTURED_OUTPUT_MISSING: false,
  STRUCTURED_OUTPUT_MALFORMED: false,
  ARTIFACT_NOT_FOUND: false,
  ARTIFACT_PUBLICATION_INCOMPLETE: true,
  ARTIFACT_STORE_UNAVAILABLE: true,
  RETRIEVAL_TIMEOUT: true,
  PAYLOAD_TOO_LARGE: false,
  TOO_MANY_REQUESTS: true,
  UNAUTHORIZED: false,
} as const;

export type VoidBoxCode = keyof typeof VOID_BOX_CODES;

export interface VoidBoxErrorBody {
  readonly code: VoidBoxCode;
  readonly message: string;
  readonly retryable: boolean;
}

export function toErrorBody(code: VoidBoxCode, message: string): VoidBoxErrorBody {
  return { code, message, retryable: VOID_BOX_CODES[code] };
}
