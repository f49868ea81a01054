"""Waits until an S3 server answers and makes the bucket of the tests, or fails after a bound."""

import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ENDPOINT, BUCKET, PID = sys.argv[1], sys.argv[2], int(sys.argv[3])
TRIES = 120
PAUSE_S = 0.25

client = boto3.client(
    "s3",
    endpoint_url=ENDPOINT,
    region_name="us-east-1",
    aws_access_key_id="test",
    aws_secret_access_key="testtest",
    config=Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=5, s3={"addressing_style": "path"}),
)


def alive():
    try:
        with open(f"/proc/{PID}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


fault = None
for _ in range(TRIES):
    if not alive():
        sys.exit(f"the server died before it answered at {ENDPOINT}")
    try:
        client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
        client.delete_object(Bucket=BUCKET, Key="ready")
        sys.exit(0)
    except ClientError as error:
        if error.response["Error"].get("Code") == "BucketAlreadyOwnedByYou":
            sys.exit(0)
        fault = error
    except BotoCoreError as error:
        fault = error
    time.sleep(PAUSE_S)
sys.exit(f"no answer from {ENDPOINT} after {TRIES * PAUSE_S:.0f} s: {fault}")
